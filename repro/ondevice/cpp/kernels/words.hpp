// Random words from a key and a counter, a vector at a time (see counter.hpp).
#pragma once

#include "simd.hpp"

namespace zo::ZO_ISA {

struct Key {
    std::uint32_t low, high;
    ZO_INLINE explicit Key(std::uint64_t key)
        : low(std::uint32_t(key)), high(std::uint32_t(key >> 32)) {}
};

inline constexpr std::uint32_t kFirstFactor = 0x7FEB352D, kSecondFactor = 0x846CA68B;

/// The factors of a word, where a loop keeps them in registers.
struct Factors {
    const U first = kept(kFirstFactor), second = kept(kSecondFactor);
};

/// word(key, i) of each counter i, from i + key.low.
ZO_INLINE U words_at(Key key, U x, const auto& factors) {
    x = (x ^ (x >> 16)) * factors.first;
    x = (x ^ (x >> 15) ^ key.high) * factors.second;
    return x ^ (x >> 16);
}

/// word(key, i) of each counter i.
ZO_INLINE U words(Key key, U counters) {
    constexpr struct {
        std::uint32_t first = kFirstFactor, second = kSecondFactor;
    } factors;
    return words_at(key, counters + key.low, factors);
}

/// word(key, first), word(key, first + 1), ...
ZO_INLINE U words(Key key, std::uint32_t first) { return words(key, U(lanes()) + first); }

}  // namespace zo::ZO_ISA
