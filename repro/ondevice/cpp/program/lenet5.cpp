#include "lenet5.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "../counter.hpp"

namespace zo {
namespace {

/// Uniform on (-1, 1), from 24 bits of a word.
double uniform(std::uint64_t key, std::uint32_t i) {
    return (double(word(key, i) >> 8) + 0.5) / (1 << 23) - 1;
}

/// ceil(log2(largest)) - 7, the exponent at which it needs 7 bits.
int exponent_of(double largest) {
    int exponent;
    const double fraction = std::frexp(largest, &exponent);
    return exponent - (fraction == 0.5) - 7;
}

Layer convolution(std::string name, int channels, int height, int width, int outputs, bool bias) {
    return {std::move(name), channels, height, width, outputs, 5, 5, 2, bias, true, 2, 2};
}

Layer full(std::string name, int channels, int height, int width, int outputs, bool bias,
           bool rectified) {
    return {std::move(name), channels, height, width,     outputs, height,
            width,           0,        bias,   rectified, 1,       1};
}

}  // namespace

std::vector<Layer> lenet5(int height, int width, int classes, bool bias) {
    if (height < 4 || width < 4 || height % 4 || width % 4)
        throw std::invalid_argument("images of " + std::to_string(height) + " x " +
                                    std::to_string(width) + ": sides must be multiples of 4");
    return {convolution("conv1", 1, height, width, 6, bias),
            convolution("conv2", 6, height / 2, width / 2, 16, bias),
            full("fc1", 16, height / 4, width / 4, 120, bias, true),
            full("fc2", 120, 1, 1, 84, bias, true), full("fc3", 84, 1, 1, classes, bias, false)};
}

int tail_of(const std::string& method, int layers) {
    if (method == "full_zo") return layers;
    if (method == "cls2") return layers - 1;
    if (method == "cls1") return layers - 2;
    if (method == "full_bp") return 0;
    throw std::invalid_argument("--method " + method + ": must be full_zo, cls2, cls1 or full_bp");
}

void initialise(std::span<const Layer> layers, std::uint64_t seed, std::span<float> parameters) {
    const std::uint64_t key = stream_key(seed, 0, Purpose::kWeights);
    std::size_t i = 0;
    for (const Layer& layer : layers) {
        const double bound = 1 / std::sqrt(double(layer.fan_in()));
        for (const std::size_t end = i + layer.parameters(); i < end; ++i)
            parameters[i] = float(bound * uniform(key, std::uint32_t(i)));
    }
}

std::vector<int> initialise(std::span<const Layer> layers, std::uint64_t seed,
                            std::span<std::int8_t> parameters) {
    const std::uint64_t key = stream_key(seed, 0, Purpose::kWeights);
    std::vector<int> exponents;
    std::size_t first = 0;
    for (const Layer& layer : layers) {
        const std::size_t kernel = std::size_t(layer.kernel_height) * layer.kernel_width;
        const double fan_out = double(layer.outputs) * (layer.fully_connected() ? 1 : kernel);
        const double bound = std::sqrt(6 / (layer.fan_in() + fan_out));
        double largest = 0;
        for (std::size_t i = first; i < first + layer.weights(); ++i)
            largest = std::max(largest, std::abs(uniform(key, std::uint32_t(i))));
        for (std::size_t i = first; i < first + layer.weights(); ++i)
            parameters[i] =
                std::int8_t(std::nearbyint(127 * uniform(key, std::uint32_t(i)) / largest));
        exponents.push_back(exponent_of(bound * largest));
        first += layer.weights();
    }
    return exponents;
}

std::vector<float> grey_levels(double mean, double deviation) {
    std::vector<float> levels(256);
    const float offset = float(255 * mean), factor = float(1 / (255 * deviation));
    for (int grey = 0; grey < 256; ++grey) levels[grey] = (float(grey) - offset) * factor;
    if (!std::isfinite(levels.front()) || !std::isfinite(levels.back()) ||
        levels.front() == levels.back())
        throw std::invalid_argument("--mean and --deviation: 256 grey levels become " +
                                    std::to_string(levels.front()) + " to " +
                                    std::to_string(levels.back()) +
                                    ": must be finite and differ; give a larger --deviation");
    return levels;
}

int quantise(std::span<const float> levels, std::span<std::int8_t> quantised) {
    const int exponent = exponent_of(std::max(std::abs(levels.front()), std::abs(levels.back())));
    for (std::size_t i = 0; i < levels.size(); ++i)
        quantised[i] = std::int8_t(
            std::clamp(std::nearbyint(std::ldexp(levels[i], -exponent)), -128.0f, 127.0f));
    return exponent;
}

void shuffle(std::span<std::uint32_t> order, std::uint64_t seed, std::uint64_t epoch) {
    const std::uint64_t key = stream_key(seed, epoch, Purpose::kOrder);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i)  // Fisher and Yates
        std::swap(order[i - 1], order[std::uint64_t(word(key, std::uint32_t(i))) * i >> 32]);
}

Bits phase_of(int epoch, int epochs) {
    if (epoch >= 0.5 * epochs) return {3, 0.9};
    if (epoch >= 0.2 * epochs) return {4, 0.5};
    return {5, 0.33};
}

}  // namespace zo
