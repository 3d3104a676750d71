// Exact passes over 16-bit weights on a lattice (repro.methods.lattice), in float32.
#pragma once

#include "half.hpp"

namespace zo::ZO_ISA {

template <class Format>
void lattice_pass(const LatticePass& pass, std::uint16_t* theta, const float* z, std::size_t count);
template <class Format>
void lattice_pass_by_signs(const LatticePass& pass, std::uint16_t* theta, std::uint64_t key,
                           std::size_t first, std::size_t count);

}  // namespace zo::ZO_ISA
