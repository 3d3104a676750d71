// A sequential network of NITI's integers, whatever the layout of a batch in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arena.hpp"
#include "layer.hpp"
#include "machine.hpp"

namespace zo {

/// Most int8 products that an int32 sum holds.
inline constexpr std::size_t kMostProducts = ((std::size_t(1) << 31) - 2) / (128 * 128);

/// int8 logits of a batch and their exponent.
struct IntLogits {
    const std::int8_t* values;  ///< [batch][classes]
    int batch, classes, exponent;
};

/// Where the errors of the logits go: that of class c of sample b to values[c of_class + b
/// of_sample].
struct LogitErrors {
    std::int8_t* values;
    std::ptrdiff_t of_class, of_sample;
};

/// The layers of repro.integer.network.IntegerNetwork under the shift policy v2: forward, and
/// backward through the last ones, the tail.
class IntNetwork {
   public:
    virtual ~IntNetwork() = default;

    const std::vector<Layer>& layers() const { return layers_; }
    const Machine& machine() const { return machine_; }
    /// Index of the first layer that `backward` updates; layers().size() for none.
    int tail() const { return tail_; }
    int classes() const { return layers_.back().outputs; }
    std::size_t inputs() const;
    std::span<std::int8_t> parameters() { return parameters_; }
    /// The weights before the tail.
    std::size_t head_parameters() const { return offsets_[tail_]; }
    std::size_t offset(int layer) const { return offsets_[layer]; }
    Arena& arena() { return arena_; }
    /// Allocates all memory; to be called once, before anything else.
    virtual void allocate() { arena_.allocate(); }

    /// Reads a batch, [batch][inputs]; it is kept for any number of passes.
    virtual void read(const std::int8_t* inputs, int batch, int exponent) = 0;

    /// Computes the logits. With `recorded`, keeps what `backward` needs.
    virtual IntLogits forward(bool recorded) = 0;

    /// Where `backward` finds the errors of the logits.
    virtual LogitErrors logit_errors() = 0;

    /// From the errors of the logits to the tail's updates of so many bits.
    virtual void backward(int bits) = 0;

    /// weights <- clip(weights - update) in the tail.
    void descend();

   protected:
    /// `unit`: what batches are padded to. Throws std::invalid_argument.
    IntNetwork(std::vector<Layer> layers, std::vector<int> exponents, int tail, Machine machine,
               int unit);

    std::span<const std::int8_t> weights(int layer) const;
    std::span<std::int8_t> update_of(int layer) const;
    /// Room for the gradient of the layer, which `round_gradient` turns to its update. That of a
    /// fully connected layer fits int32; that of a convolution adds up places, too.
    std::span<std::int32_t> row_gradient(int layer) const;
    std::span<std::int64_t> window_gradient(int layer) const;
    void round_gradient(int layer, int bits);

    const std::vector<Layer> layers_;
    const std::vector<int> exponents_;
    const int tail_;
    const Machine machine_;
    Arena arena_;
    std::vector<std::size_t> offsets_;
    std::span<std::int8_t> parameters_, logits_, updates_;
    /// For the gradient of any layer of the tail; to be reserved by who knows what else may lie
    /// there.
    std::span<std::int32_t> row_gradient_;
    std::span<std::int64_t> window_gradient_;
    std::size_t most_of_rows_ = 0, most_of_windows_ = 0;
};

}  // namespace zo
