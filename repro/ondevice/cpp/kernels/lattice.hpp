// Exact walks of 16-bit weights on a lattice (repro.methods.lattice), in float32.
#pragma once

#include "../kernels.hpp"

namespace zo::ZO_ISA {

void walk_bf16(const LatticeWalk& walk, std::uint16_t* theta, const float* z, std::size_t count);
void walk_f16(const LatticeWalk& walk, std::uint16_t* theta, const float* z, std::size_t count);

}  // namespace zo::ZO_ISA
