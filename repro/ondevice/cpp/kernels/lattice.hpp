// Exact passes over 16-bit weights on a lattice (repro.methods.lattice), in float32.
#pragma once

#include "../kernels.hpp"

namespace zo::ZO_ISA {

void lattice_pass_bf16(const LatticePass& pass, std::uint16_t* theta, const float* z,
                       std::size_t count);
void lattice_pass_f16(const LatticePass& pass, std::uint16_t* theta, const float* z,
                      std::size_t count);

}  // namespace zo::ZO_ISA
