// From an error to that of a window, and from a gradient's sums to the update (docs/integer.md:
// pseudo-stochastic).
#pragma once

#include "simd.hpp"

namespace zo::ZO_ISA {

inline void route_i8(const std::int8_t* from, const std::uint16_t* choices, int choice, int count,
                     std::int8_t* to) {
    const H chosen = H{} + std::uint16_t(choice);
    for (int b = 0; b < count; b += L)
        store(to + b,
              load<B>(from + b) & __builtin_convertvector(load<H>(choices + b) == chosen, B));
}

typedef std::int64_t D __attribute__((vector_size(4 * L)));
typedef std::int8_t DBytes __attribute__((vector_size(L / 2)));  // one byte for each lane of D
inline constexpr int kHalf = L / 2;                              // lanes of D

/// Calls visit(i, vector) for vectors of sums; the last one is filled up with zeros.
ZO_INLINE void each(const std::int64_t* sums, std::size_t count, const auto& visit) {
    std::size_t i = 0;
    for (; i + kHalf <= count; i += kHalf) visit(i, load<D>(sums + i));
    D rest{};
    for (std::size_t lane = 0; i + lane < count; ++lane) rest[lane] = sums[i + lane];
    if (i < count) visit(i, rest);
}

ZO_INLINE D magnitude(D a) { return a < 0 ? -a : a; }

inline std::uint64_t largest_i64(const std::int64_t* sums, std::size_t count) {
    D largest{};
    each(sums, count, [&](std::size_t, D a) { largest = maximum(largest, magnitude(a)); });
    std::int64_t result = 0;
    for (int lane = 0; lane < kHalf; ++lane)
        result = largest[lane] > result ? largest[lane] : result;
    return std::uint64_t(result);
}

/// rounded[i] = P(sums[i], k), clipped, for k >= 1; see rounding.hpp.
inline void round_i64(const std::int64_t* sums, std::size_t count, int k, std::int8_t* rounded) {
    const int low_bits = k / 2, odd = k % 2;
    const std::int64_t low_mask = (std::int64_t(1) << low_bits) - 1,
                       mask = (std::int64_t(1) << k) - 1;
    each(sums, count, [&](std::size_t i, D a) {
        const D m = magnitude(a);
        const D low = (m & low_mask) << odd, high = (m & mask) >> low_bits;
        const D up = minimum((m >> k) - (high > low), D{} + 127);
        const DBytes values = __builtin_convertvector(a < 0 ? -up : up, DBytes);
        if (i + kHalf <= count) return store(rounded + i, values);
        for (std::size_t lane = 0; i + lane < count; ++lane) rounded[i + lane] = values[lane];
    });
}

}  // namespace zo::ZO_ISA
