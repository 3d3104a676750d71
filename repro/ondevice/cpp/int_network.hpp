// A sequential network of NITI's integers: forward, and backward through its last layers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "int_convolution.hpp"

namespace zo {

/// int8 logits of a batch and their exponent.
struct IntLogits {
    const std::int8_t* values;  ///< [batch][classes]
    int batch, classes, exponent;
};

/// The layers of repro.integer.network.IntegerNetwork under the shift policy v2.
class IntNetwork {
   public:
    /// `tail`: index of the first layer that `backward` updates; layers.size() for none.
    IntNetwork(std::vector<Layer> layers, std::vector<int> exponents, int tail, Machine machine);

    const std::vector<Layer>& layers() const { return layers_; }
    const Machine& machine() const { return machine_; }
    int tail() const { return tail_; }
    int classes() const { return layers_.back().outputs; }
    std::size_t inputs() const;
    std::size_t arena_bytes() const { return arena_.bytes(); }
    std::span<std::int8_t> parameters() { return parameters_; }
    /// The weights before the tail.
    std::size_t head_parameters() const { return offsets_[tail_]; }
    std::size_t offset(int layer) const { return offsets_[layer]; }
    Arena& arena() { return arena_; }
    /// Allocates all memory; to be called once, before anything else.
    void allocate();

    /// Reads a batch, [batch][inputs]; it is kept for any number of passes.
    void read(const std::int8_t* inputs, int batch, int exponent);

    /// Computes the logits. With `recorded`, keeps what `backward` needs.
    IntLogits forward(bool recorded);

    /// Where `backward` finds the error of the logits, a channel for each class.
    const IntMap& logit_error() const { return stages_.back().pooled_error; }

    /// From the error of the logits to the tail's updates of so many bits.
    void backward(int bits);

    /// weights <- clip(weights - update) in the tail.
    void descend();

   private:
    struct Stage {
        Stage(const Layer& layer, bool signed_input, const Machine& machine, bool in_tail,
              bool passes_error, bool reads_sums, Arena& arena);

        IntMap input;
        IntConvolution convolution;
        bool in_tail;
        bool reads_sums;  // of the layer before, not a map; but not in the tail of a recorded pass
        std::span<std::uint16_t> choices;          // [features][batch]
        std::span<const std::int32_t> taps;        // of the weights, in the input
        IntMap pooled_error;                       // of the output
        IntMap error;                              // of the sums, with a border
        std::unique_ptr<IntConvolution> backward;  // to the error of the input
        std::span<std::int8_t> turned;             // its weights
    };

    void narrow(const Layer& layer, const IntMap& out, int groups, int shift, bool pooled,
                std::span<std::uint16_t> choices);
    void forget_errors();
    void spread_error(Stage& stage, int batch);
    void update(Stage& stage, int layer, int bits);
    void multiply_rows(const Stage& stage, std::span<std::int32_t> sums);
    void multiply_windows(const Stage& stage, std::span<std::int64_t> sums);
    void turn(Stage& stage, const std::int8_t* weights);
    void pass_error_on(Stage& stage, int layer, IntMap& to);
    std::span<const std::int8_t> weights(int layer) const;
    const IntSums& sums_of(const Layer& layer) const {
        return layer.fully_connected() ? joint_ : sums_;
    }
    int groups(int batch) const { return (batch + kGroup - 1) / kGroup; }

    const std::vector<Layer> layers_;
    const std::vector<int> exponents_;
    const int tail_;
    const Machine machine_;
    Arena arena_;
    std::vector<std::size_t> offsets_;
    std::deque<Stage> stages_;  // a deque, since an arena remembers where its spans are
    IntMap output_;
    std::span<std::int8_t> parameters_, logits_, updates_;
    IntSums sums_, joint_;  // of layers that threads compute by groups, and of others
    std::span<std::int32_t> row_gradient_;     // of a fully connected layer
    std::span<std::int64_t> window_gradient_;  // of a convolution, which adds up places, too
    int batch_ = 0, exponent_ = 0;
    int with_errors_ = 0;  // samples of the largest batch whose errors may be there
};

}  // namespace zo
