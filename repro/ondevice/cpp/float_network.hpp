// A sequential network in float32: forward, and backward through its last layers.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "arena.hpp"
#include "kernels.hpp"
#include "layer.hpp"
#include "machine.hpp"

namespace zo {

/// Values of a batch, kGroup samples side by side: [group][channel][row][column][kGroup], with a
/// border of zeros around the places if the layer that reads them pads.
struct FloatMap {
    std::span<float> values;
    int channels = 0, height = 0, width = 0, padding = 0;

    std::ptrdiff_t row() const { return std::ptrdiff_t(width + 2 * padding) * kGroup; }
    std::ptrdiff_t channel() const { return (height + 2 * padding) * row(); }
    std::ptrdiff_t group() const { return channels * channel(); }
    float* at(long g, int c, int y, int x) const {
        return values.data() + g * group() + c * channel() + (y + padding) * row() + (x + padding) * kGroup;
    }
    void reserve(Arena& arena, int groups) { arena.reserve(values, groups * group()); }
    /// The same values as if they were of other places; without a border only.
    FloatMap reshaped(int new_channels, int new_height, int new_width) const {
        return {values, new_channels, new_height, new_width, 0};
    }
};

/// The layers of a torch.nn.Sequential of Conv2d, Linear, ReLU and max pooling.
class FloatNetwork {
   public:
    /// `tail`: index of the first layer that `backward` differentiates; layers.size() for none.
    FloatNetwork(std::vector<Layer> layers, int tail, Machine machine);

    const std::vector<Layer>& layers() const { return layers_; }
    const Machine& machine() const { return machine_; }
    int tail() const { return tail_; }
    int classes() const { return layers_.back().outputs; }
    std::size_t inputs() const;
    std::size_t head_parameters() const { return offsets_[tail_]; }
    std::span<float> parameters() { return parameters_; }
    Arena& arena() { return arena_; }
    /// Allocates all memory; to be called once, before anything else.
    void allocate();

    /// Reads a batch, [batch][inputs]; it is kept for any number of passes.
    void read(const float* inputs, int batch);

    /// Returns the logits, [batch][classes]. With `recorded`, keeps what `backward` needs.
    std::span<const float> forward(bool recorded);

    /// Adds `factor` times the tail's gradient from the error of the logits, [batch][classes].
    void backward(const float* error, float factor);

    /// weights <- weights - rate gradient in the tail; the gradient is zero thereafter.
    void descend(float rate);
    /// Sets the gradient to zero.
    void forget();

   private:
    struct Stage {
        Layer layer;
        FloatMap input;
        std::span<std::int32_t> taps;
        bool in_tail, fused;
        std::span<std::uint16_t> choices;  // [group][feature][kGroup]
        FloatMap pooled_error, error;
        std::unique_ptr<Layer> backward;
        std::span<std::int32_t> backward_taps;
        std::span<float> turned;
    };

    int groups() const { return (batch_ + kGroup - 1) / kGroup; }
    void convolve(const Layer& layer, const FloatMap& in, std::span<const std::int32_t> taps, const float* weights,
                  const float* bias, const FloatMap& out, bool pooled, bool rectified);
    void pool(Stage& stage, const FloatMap& sums, const FloatMap& out, bool recorded);
    void spread_error(Stage& stage);
    void gradient(Stage& stage, float* gradient, float factor);
    void pass_error_on(Stage& stage, const float* weights, const FloatMap& to);

    const std::vector<Layer> layers_;
    const int tail_;
    const Machine machine_;
    Arena arena_;
    std::vector<std::size_t> offsets_;
    std::deque<Stage> stages_;
    FloatMap output_;
    std::span<float> parameters_, logits_, gradient_, sums_;
    int batch_ = 0;
};

}  // namespace zo
