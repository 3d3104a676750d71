#pragma once

#include "simd.hpp"

namespace zo::ZO_ISA {

/// theta[first + i] += factor z[first + i]; first is a multiple of 32.
void move_f32(float* theta, std::size_t first, std::size_t count, std::uint64_t key, float factor);

}  // namespace zo::ZO_ISA
