#pragma once

#include "half.hpp"

namespace zo::ZO_ISA {

/// Writes z[first], ..., z[first + count - 1]; first is a multiple of 32.
void gaussian_f32(std::uint64_t key, std::size_t first, std::size_t count, float* z);

/// z[i] = left[0] right[i] + left[1] right[step + i] + ...
void product_f32(const float* left, const float* right, std::size_t step, std::size_t rank,
                 std::size_t count, float* z);

/// theta[i] += factor z[i].
void move_f32(float* theta, const float* z, std::size_t count, float factor);
/// The same of 16-bit weights: the sum in float32, rounded to the nearest, ties to even.
template <class Format>
void move_half(std::uint16_t* theta, const float* z, std::size_t count, float factor);

}  // namespace zo::ZO_ISA
