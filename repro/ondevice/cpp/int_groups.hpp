// The network for speed: 16 samples side by side in a vector.
#pragma once

#include <deque>
#include <memory>

#include "int_convolution.hpp"
#include "int_network.hpp"

namespace zo {

class GroupedIntNetwork final : public IntNetwork {
   public:
    GroupedIntNetwork(std::vector<Layer> layers, std::vector<int> exponents, int tail,
                      Machine machine);

    void allocate() override;
    void read(const std::int8_t* inputs, int batch, int exponent) override;
    IntLogits forward(bool recorded) override;
    LogitErrors logit_errors() override;
    void backward(int bits) override;

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
    void multiply_rows(const Stage& stage, std::span<std::int32_t> sums);
    void multiply_windows(const Stage& stage, std::span<std::int64_t> sums);
    void turn(Stage& stage, const std::int8_t* weights);
    void pass_error_on(Stage& stage, int layer, IntMap& to);
    const IntSums& sums_of(const Layer& layer) const {
        return layer.fully_connected() ? joint_ : sums_;
    }
    int groups(int batch) const { return (batch + kGroup - 1) / kGroup; }

    std::deque<Stage> stages_;  // a deque, since an arena remembers where its spans are
    IntMap output_;
    IntSums sums_, joint_;  // of layers that threads compute by groups, and of others
    int batch_ = 0, exponent_ = 0;
    int with_errors_ = 0;  // samples of the largest batch whose errors may be there
};

}  // namespace zo
