#include "layer.hpp"

#include "machine.hpp"

#include <cmath>
#include <stdexcept>

namespace zo {
namespace {

constexpr int kMostSide = 1 << 14;  // a row of products stays in int32
constexpr std::size_t kMostElements = std::size_t(1) << 31;
constexpr std::size_t kMostPlaces = 65535;  // the place of a maximum is kept in 16 bits

void require(bool holds, const Layer& layer, const std::string& rule) {
    if (!holds) throw std::invalid_argument("layer " + layer.name + ": " + rule);
}

void check_alone(const Layer& l) {
    for (int side : {l.channels, l.height, l.width, l.outputs, l.kernel_height, l.kernel_width,
                     l.pool_height, l.pool_width})
        require(
            1 <= side && side <= kMostSide, l,
            "size " + std::to_string(side) + ", must be from 1 to " + std::to_string(kMostSide));
    require(0 <= l.padding && l.padding < l.kernel_height && l.padding < l.kernel_width, l,
            "padding " + std::to_string(l.padding) + ", must be from 0 to the kernel's side - 1");
    require(l.kernel_height == l.kernel_width || l.fully_connected(), l,
            "a convolution needs a square kernel");
    require(l.rows() >= 1 && l.columns() >= 1, l, "the kernel is larger than its padded input");
    require(l.pooled_rows() >= 1 && l.pooled_columns() >= 1, l,
            "the pooling window is larger than its input");
    require(std::size_t(l.pool_height) * l.pool_width <= kMostPlaces, l,
            "pooling windows of " + std::to_string(l.pool_height * l.pool_width) +
                " values, must be at most " + std::to_string(kMostPlaces));
    require(!l.normed || (l.norm_eps > 0 && std::isfinite(l.norm_eps) && 0 <= l.norm_momentum &&
                          l.norm_momentum <= 1),
            l, "batch norm: eps must be finite and above 0, momentum from 0 to 1");
    // Up to three more for the gap of a FloatMap.
    const std::size_t map = std::size_t(l.padded_height()) * (l.padded_width() + 3);
    const std::size_t fan_in = std::size_t(l.channels) * l.kernel_height * l.kernel_width;
    // Of the error of a convolution's sums, with the zeros around it.
    const std::size_t error =
        std::size_t(l.height + l.kernel_height - 1) * (l.width + l.kernel_width + 2);
    require(fan_in < kMostElements && fan_in * l.outputs < kMostElements &&
                map * l.channels < kMostElements / kGroup &&
                map * l.outputs < kMostElements / kGroup &&
                (l.fully_connected() || error * l.outputs < kMostElements / kGroup),
            l, "more than 2^31 elements");
}

}  // namespace

Layer transposed(const Layer& l) {
    Layer t = l;
    t.bias = t.normed = t.rectified = false;
    t.pool_height = t.pool_width = 1;
    if (l.fully_connected()) {
        t.channels = l.outputs;
        t.height = t.width = t.kernel_height = t.kernel_width = 1;
        t.outputs = l.fan_in();
    } else {
        t.channels = l.outputs;
        t.height = l.rows();
        t.width = l.columns();
        t.outputs = l.channels;
        t.padding = l.error_padding();
    }
    return t;
}

void check(std::span<const Layer> layers) {
    if (layers.empty()) throw std::invalid_argument("no layer with parameters: nothing to train");
    for (const Layer& layer : layers) check_alone(layer);
    for (std::size_t i = 1; i < layers.size(); ++i) {
        const Layer &before = layers[i - 1], &layer = layers[i];
        const int inputs = layer.channels * layer.height * layer.width;
        const bool same = layer.channels == before.outputs &&
                          layer.height == before.pooled_rows() &&
                          layer.width == before.pooled_columns();
        const bool flat = layer.fully_connected() && inputs == before.features();
        require(same || flat, layer,
                std::to_string(inputs) + " input features, but layer " + before.name + " gives " +
                    std::to_string(before.features()));
    }
    require(layers.back().pooled_rows() == 1 && layers.back().pooled_columns() == 1, layers.back(),
            "the last layer must give one row of logits");
}

void check(const Machine& machine, int unit) {
    if (machine.threads < 1 || machine.threads > 1024)
        throw std::invalid_argument("threads = " + std::to_string(machine.threads) +
                                    ": must be from 1 to 1024");
    if (machine.capacity < 1 || machine.capacity % unit || machine.capacity > 1 << 20)
        throw std::invalid_argument("batch of " + std::to_string(machine.capacity) +
                                    ": must be from 1 to 2^20, in multiples of " +
                                    std::to_string(unit));
}

std::size_t parameters(std::span<const Layer> layers) {
    std::size_t sum = 0;
    for (const Layer& layer : layers) sum += layer.parameters();
    return sum;
}

}  // namespace zo
