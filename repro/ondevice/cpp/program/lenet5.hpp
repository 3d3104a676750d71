// LeNet-5 as the ElasticZO paper trains it, and what else the program decides about a run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../layer.hpp"

namespace zo {

/// Layers for grey images of height x width; both must be divisible by 4.
std::vector<Layer> lenet5(int height, int width, int classes, bool bias);

/// Index of the first layer trained by backpropagation; the number of layers for full_zo. Throws
/// std::invalid_argument for other methods than full_zo, cls2, cls1, full_bp.
int tail_of(const std::string& method, int layers);

/// PyTorch's default initial weights (uniform, of bound 1 / sqrt(fan in)) by the engine's words.
void initialise(std::span<const Layer> layers, std::uint64_t seed, std::span<float> parameters);

/// NITI's Xavier weights, scaled to the int8 range; returns the exponent of each layer.
std::vector<int> initialise(std::span<const Layer> layers, std::uint64_t seed,
                            std::span<std::int8_t> parameters);

/// The float32 value of each of 256 grey levels. Throws std::invalid_argument unless all are finite
/// and the ends differ.
std::vector<float> grey_levels(double mean, double deviation);

/// Those levels as int8 of one exponent, which is returned.
int quantise(std::span<const float> levels, std::span<std::int8_t> quantised);

/// The order of the items in an epoch: a shuffle by the engine's words.
void shuffle(std::span<std::uint32_t> order, std::uint64_t seed, std::uint64_t epoch);

/// ElasticZO's schedule of gradient bits and sparsity (section 5.1.1).
struct Bits {
    int b_bp;
    double p_zero;
};
Bits phase_of(int epoch, int epochs);

}  // namespace zo
