// Random words from a key and a counter, a vector at a time (see counter.hpp).
#pragma once

#include "simd.hpp"

namespace zo::ZO_ISA {

struct Key {
    std::uint32_t low, high;
    ZO_INLINE explicit Key(std::uint64_t key)
        : low(std::uint32_t(key)), high(std::uint32_t(key >> 32)) {}
};

/// word(key, i) of each counter i.
ZO_INLINE U words(Key key, U counters) {
    U x = counters + key.low;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15) ^ key.high) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

/// word(key, first), word(key, first + 1), ...
ZO_INLINE U words(Key key, std::uint32_t first) { return words(key, U(lanes()) + first); }

}  // namespace zo::ZO_ISA
