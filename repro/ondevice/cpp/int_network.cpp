#include "int_network.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "rounding.hpp"

namespace zo {
namespace {

template <class T>
void rounded(std::span<const T> sums, int bits,
             std::uint64_t (*largest)(const T* sums, std::size_t count),
             void (*round)(const T* sums, std::size_t count, int k, std::int8_t* rounded),
             std::span<std::int8_t> update) {
    const GradientShift shift(largest(sums.data(), sums.size()), bits);
    if (shift.vanishes)
        std::ranges::fill(update, 0);
    else if (shift.k >= 1)
        round(sums.data(), sums.size(), shift.k, update.data());
    else
        std::ranges::copy(sums, update.begin());  // a cast
}

}  // namespace

IntNetwork::IntNetwork(std::vector<Layer> layers, std::vector<int> exponents, int tail,
                       Machine machine, int unit)
    : layers_(std::move(layers)), exponents_(std::move(exponents)), tail_(tail), machine_(machine) {
    zo::check(layers_);
    zo::check(machine_, unit);
    if (exponents_.size() != layers_.size())
        throw std::invalid_argument("one exponent for each layer is needed");
    const int count = int(layers_.size());
    if (tail < 0 || tail > count)
        throw std::invalid_argument("tail " + std::to_string(tail) + ": must be from 0 to " +
                                    std::to_string(count));
    for (int i = 0; i < count; ++i) {
        const Layer& l = layers_[i];
        if (l.bias || l.normed)
            throw std::invalid_argument(
                "layer " + l.name + " has a bias or a batch norm; NITI networks support neither");
        // an error is passed on to the layers that backpropagation trains, but for the first
        const std::size_t products = std::max(l.fan_in(), i > tail ? transposed(l).fan_in() : 0);
        if (products > kMostProducts)
            throw std::invalid_argument("layer " + l.name + ": sums of " +
                                        std::to_string(products) +
                                        " products may overflow int32; at most 131071 fit");
        if (i >= tail && l.fully_connected() && std::size_t(machine_.capacity) > kMostProducts)
            throw std::invalid_argument("layer " + l.name + ": its gradient in a batch of " +
                                        std::to_string(machine_.capacity) +
                                        " samples may overflow int32; at most 131071 fit");
        offsets_.push_back(zo::parameters(std::span(layers_).first(i)));
        if (i < tail) continue;
        std::size_t& most = l.fully_connected() ? most_of_rows_ : most_of_windows_;
        most = std::max(most, l.weights());
    }
    offsets_.push_back(zo::parameters(layers_));
    arena_.reserve(parameters_, offsets_.back());
    arena_.reserve(logits_, std::size_t(machine_.capacity) * classes());
    arena_.reserve(updates_, offsets_.back() - offsets_[tail]);
}

std::size_t IntNetwork::inputs() const {
    const Layer& l = layers_.front();
    return std::size_t(l.channels) * l.height * l.width;
}

std::span<const std::int8_t> IntNetwork::weights(int layer) const {
    return parameters_.subspan(offsets_[layer], layers_[layer].weights());
}

std::span<std::int8_t> IntNetwork::update_of(int layer) const {
    return updates_.subspan(offsets_[layer] - offsets_[tail_], layers_[layer].weights());
}

std::span<std::int32_t> IntNetwork::row_gradient(int layer) const {
    return row_gradient_.first(layers_[layer].weights());
}

std::span<std::int64_t> IntNetwork::window_gradient(int layer) const {
    return window_gradient_.first(layers_[layer].weights());
}

void IntNetwork::round_gradient(int layer, int bits) {
    const Kernels& kernels = machine_.kernels;
    if (layers_[layer].fully_connected())
        rounded<std::int32_t>(row_gradient(layer), bits, kernels.largest_i32, kernels.round_i32,
                              update_of(layer));
    else
        rounded<std::int64_t>(window_gradient(layer), bits, kernels.largest_i64, kernels.round_i64,
                              update_of(layer));
}

void IntNetwork::descend() {
    std::int8_t* const w = parameters_.data() + offsets_[tail_];
    machine_.kernels.move_i8({w, w, updates_.data(), updates_.size(), -1});
}

}  // namespace zo
