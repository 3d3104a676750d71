// NITI's ranges and the shift of gradients (docs/integer.md).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace zo {

inline constexpr int kLargest = 127, kMagnitudeBits = 7;

/// R = ceil(log2 m), 0 for m = 0.
constexpr int magnitude_range(std::uint64_t m) { return m > 0 ? int(std::bit_width(m - 1)) : 0; }

/// The shift k of activations and errors whose accumulators have this range; 0 is a cast.
constexpr int activation_shift(std::int64_t least, std::int64_t greatest) {
    return std::max(magnitude_range(std::uint64_t(std::max(-least, greatest))) - kMagnitudeBits, 0);
}

/// How a gradient of largest magnitude m is rounded to some bits: k = R - bits.
struct GradientShift {
    GradientShift(std::uint64_t m, int bits)
        : vanishes(magnitude_range(m) == 0), k(magnitude_range(m) - bits) {}

    bool vanishes;  ///< all zeros, R = 0
    int k;          ///< below 1 is a cast
};

}  // namespace zo
