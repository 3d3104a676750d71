// Noise of weights that live outside the engine, such as those of a PyTorch model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace zo {

/// A matrix z = left right, whose rows lie one behind the other.
struct Product {
    const float* left;   ///< [rows][rank]
    const float* right;  ///< [rank][columns]
    std::size_t rank, columns;
};

/// A part of the vector z of a seed, which is as long as any model. Its numbers depend on nothing
/// else: not on the threads, nor on how the vector is cut into parts. Or a part of a product, where
/// the seed only rounds updates.
struct NoisePart {
    const Kernels& kernels;
    bool signs;              ///< or standard normal noise
    const Product* product;  ///< instead of either, if there is one
    int threads;
    std::uint64_t seed;
    std::uint64_t first;  ///< a multiple of kNoisePiece
    std::size_t count;
};
inline constexpr std::size_t kNoisePiece = 4096;  // drawn at a time, under one key

/// Writes the part. Throws std::invalid_argument, as do the others.
void draw(const NoisePart& part, float* z);

/// theta += factor z: each sum is rounded to float32 and then to the weights' format.
void add(const NoisePart& part, float* theta, float factor);
void add(const NoisePart& part, std::uint16_t* theta, HalfFormat format, float factor);

/// A pass over 16-bit weights on a lattice. Every `chunk` weights have a seed of their own, the
/// part's and so many more, and are numbered from 0. `pass` needs neither key nor place.
void lattice_pass(const NoisePart& part, std::uint16_t* theta, HalfFormat format, std::size_t chunk,
                  const LatticePass& pass);

}  // namespace zo
