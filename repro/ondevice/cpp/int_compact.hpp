// The network for small memory: a sample at a time, and nothing that is not needed twice.
#pragma once

#include "int_network.hpp"

namespace zo {

/// Its results are those of GroupedIntNetwork. Beside weights and inputs it holds the int32 sums of
/// one layer, the output of one, and of the tail what its backward pass reads.
class CompactIntNetwork final : public IntNetwork {
   public:
    CompactIntNetwork(std::vector<Layer> layers, std::vector<int> exponents, int tail,
                      Machine machine);

    void allocate() override;
    void read(const std::int8_t* inputs, int batch, int exponent) override;
    IntLogits forward(bool recorded) override;
    LogitErrors logit_errors() override;
    void backward(int bits) override;

   private:
    /// Of a layer in the tail.
    struct Kept {
        std::span<std::int8_t> input;      // [batch][inputs]; not of the first layer
        std::span<std::uint16_t> choices;  // [batch][features]
    };

    /// What the layer reads, and where its output goes.
    const std::int8_t* source(int layer) const;
    std::int8_t* target(int layer) const;
    void sum(int layer);
    void narrow(int layer, int shift, std::span<std::uint16_t> choices);
    void spread_errors(int layer);
    void multiply(int layer);
    void pass_errors_on(int layer);
    int shift_of_sums(std::size_t of_sample) const;

    std::vector<Kept> kept_;  // never resized, since an arena remembers where its spans are
    std::span<std::int8_t> inputs_;
    std::span<std::int8_t> flow_;        // between two layers before the tail
    std::span<std::int64_t> scratch_;    // holds all that have no place of their own
    std::span<std::int32_t> sums_;       // [batch][outputs][rows][columns], or [batch][inputs]
    std::span<std::int8_t> errors_;      // of a layer's output, [batch][features]
    std::span<std::int8_t> sum_errors_;  // of its sums
    std::size_t sum_error_bytes_ = 0;
    int batch_ = 0, exponent_ = 0;
};

}  // namespace zo
