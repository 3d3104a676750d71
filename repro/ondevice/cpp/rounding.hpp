// NITI's ranges and the shift of gradients (docs/integer.md).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace zo {

inline constexpr int kLargest = 127, kMagnitudeBits = 7;

/// R = ceil(log2 m), 0 for m = 0.
constexpr int magnitude_range(std::uint64_t m) { return m > 0 ? int(std::bit_width(m - 1)) : 0; }

/// P(a, k) for k >= 1, clipped: the upper half of the discarded bits against the lower.
constexpr std::int8_t pseudo_stochastic(std::int64_t a, int k) {
    const std::int64_t sign = a >> 63, magnitude = (a ^ sign) - sign;
    const int low_bits = k / 2;
    const std::int64_t low = (magnitude & ((std::int64_t(1) << low_bits) - 1)) << (k % 2);
    const std::int64_t high = (magnitude & ((std::int64_t(1) << k) - 1)) >> low_bits;
    const std::int64_t rounded = std::min<std::int64_t>((magnitude >> k) + (high > low), kLargest);
    return std::int8_t((rounded ^ sign) - sign);
}

static_assert(pseudo_stochastic(-7, 2) == -1 && pseudo_stochastic(12345, 7) == 97);

/// How a gradient of largest magnitude m is rounded to some bits: k = R - bits.
struct GradientShift {
    GradientShift(std::uint64_t m, int bits) : vanishes(magnitude_range(m) == 0), k(magnitude_range(m) - bits) {}

    bool vanishes;  ///< all zeros, R = 0
    int k;          ///< below 1 is a cast

    std::int8_t operator()(std::int64_t a) const {
        return vanishes ? 0 : k >= 1 ? pseudo_stochastic(a, k) : std::int8_t(a);
    }
};

/// Rounds a weight gradient to the update itself.
inline void round_gradient(std::span<const std::int64_t> sums, int bits, std::span<std::int8_t> update) {
    std::uint64_t largest = 0;
    for (std::int64_t a : sums) largest = std::max(largest, std::uint64_t(a < 0 ? -a : a));
    const GradientShift shift(largest, bits);
    for (std::size_t i = 0; i < sums.size(); ++i) update[i] = shift(sums[i]);
}

}  // namespace zo
