// A sequential network in float32: forward, and backward through its last layers.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "float_convolution.hpp"
#include "float_norm.hpp"
#include "pointwise_mlp.hpp"
#include "pointwise_mlp_gradient.hpp"

namespace zo {

/// The layers of a torch.nn.Sequential of Conv2d, Linear, batch norm, ReLU and max pooling.
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
    /// Running means and variances of each batch norm, [2][outputs].
    std::vector<std::span<float>> statistics();
    /// Throws std::invalid_argument if a batch norm would see one value for a channel.
    void check_training(int batch) const;

    /// Reads a batch, [batch][inputs]; it is kept for any number of passes.
    void read(const float* inputs, int batch);

    /// Returns the logits, [batch][classes].
    std::span<const float> forward(Pass pass);

    /// Adds `factor` times the tail's gradient from the error of the logits, [batch][classes].
    void backward(const float* error, float factor);

    /// weights <- weights - rate gradient in the tail; the gradient is zero thereafter.
    void descend(float rate);
    /// Whether every weight of the tail stays finite.
    bool can_descend(float rate) const;
    /// Sets the gradient to zero.
    void forget();

   private:
    struct Stage {
        Stage(const Layer& layer, const Machine& machine, bool in_tail, bool passes_error,
              Arena& arena);

        FloatMap input;
        bool in_tail, fused;
        FloatConvolution convolution;
        std::unique_ptr<FloatNorm> norm;
        FloatMap sums;                               // without memory of its own it is in `sums_`
        std::span<std::uint16_t> choices;            // [group][feature][kGroup]
        std::span<const std::int32_t> taps;          // of the weights, in the input
        FloatMap pooled_error, error;                // of the output and of the sums
        std::unique_ptr<FloatConvolution> backward;  // to the error of the input
        std::span<float> turned;                     // its weights
    };

    Stage& stage(int layer) { return stages_[layer - mlp_count_]; }
    /// The error of a layer's output.
    const FloatMap& output_error(int layer);
    /// Where a layer's output goes: `next` reads it, or it is the logits.
    FloatMap output(const Layer& layer, int next);
    int groups() const { return (batch_ + kGroup - 1) / kGroup; }
    FloatMap sums(const Stage& stage) const;
    void pool(Stage& stage, const float* scales, const FloatMap& out, Pass pass);
    void differentiate_norm(Stage& stage, const float* scales, float* gradient, float factor);
    void spread_error(Stage& stage);
    void gradient(Stage& stage, float* gradient, float factor);
    void multiply_rows(const Stage& stage, float* sums, float factor);
    void multiply_windows(const Stage& stage, float* sums, float factor);
    void sum_errors(const Stage& stage, float* sums, float factor);
    void pass_error_on(Stage& stage, const float* weights, const FloatMap& to);

    const std::vector<Layer> layers_;
    const int tail_;
    const Machine machine_;
    Arena arena_;
    std::vector<std::size_t> offsets_;
    int mlp_count_ = 0;
    std::optional<PointwiseMlp> mlp_;                   // the first layers
    std::optional<PointwiseMlpGradient> mlp_gradient_;  // if the tail has some of them
    std::deque<Stage> stages_;                          // the others
    FloatMap output_;
    std::span<float> parameters_, logits_, gradient_, sums_;
    int batch_ = 0;
};

}  // namespace zo
