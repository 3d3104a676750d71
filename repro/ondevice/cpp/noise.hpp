// Noise of weights that live outside the engine, such as those of a PyTorch model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace zo {

/// A part of the vector z of a seed, which is as long as any model. Its numbers depend on nothing
/// else: not on the threads, nor on how the vector is cut into parts.
struct NoisePart {
    const Kernels& kernels;
    DrawFloats draw_f32;  ///< one of the kernels: the distribution
    int threads;
    std::uint64_t seed;
    std::uint64_t first;  ///< a multiple of kNoisePiece
    std::size_t count;
};
inline constexpr std::size_t kNoisePiece = 4096;  // drawn at a time, under one key

enum class Format { kFloat32, kBfloat16, kFloat16 };

/// Writes the part. Throws std::invalid_argument, as does the other.
void draw(const NoisePart& part, float* z);

/// theta += factor z: each sum is rounded to float32 and then to the weights' format.
void add(const NoisePart& part, void* theta, Format format, float factor);

/// The same passes of 16-bit weights on a lattice; key and place of `pass` are set for each piece.
void lattice_pass(const NoisePart& part, std::uint16_t* theta, Format format,
                  const LatticePass& pass);

}  // namespace zo
