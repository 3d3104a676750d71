// ElasticZO-INT8 (Algorithm 2 of arXiv 2501.04287), as repro.integer.elasticzo_int8.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "int_loss.hpp"
#include "int_perturbation.hpp"
#include "timers.hpp"

namespace zo {

struct IntSettings {
    int r_max = 15;
    double p_zero = 0.33;
    int b_zo = 1, b_bp = 5;
    SignRule sign = SignRule::kFloat;
    bool minus_activations = false;  ///< for the tail, else those of the plus pass
    bool exact_restore = false;
    std::uint64_t seed = 0;

    /// Throws std::invalid_argument.
    void check() const;
};

struct IntStep {
    Comparison losses;    ///< of both passes; without a head, plus is that of the only one
    std::uint64_t key;    ///< of the noise
    std::size_t clipped;  ///< weights kept from theta + z or theta - z
};

/// The logits of a step's two passes.
struct IntPasses {
    IntLogits plus, minus;
};

class IntTraining {
   public:
    IntTraining(std::vector<Layer> layers, std::vector<int> exponents, int tail, Machine machine,
                IntSettings settings);

    IntNetwork& network() { return *network_; }
    IntSettings& settings() { return settings_; }
    Timers& timers() { return timers_; }

    /// One step on `batch` samples; labels are checked by the caller.
    IntStep step(const std::int8_t* inputs, int exponent, std::span<const std::int64_t> labels,
                 std::uint64_t number);

    /// Those of the last step, until the next pass; none if it had no head.
    const IntPasses& passes() const { return passes_; }

   private:
    IntStep led_step(const std::int8_t* inputs, int exponent, std::span<const std::int64_t> labels,
                     std::uint64_t number);
    IntLogits pass(std::span<const std::int64_t> labels, std::uint64_t number, bool recorded);

    const std::unique_ptr<IntNetwork> network_;
    IntPerturbation perturbation_;
    IntSettings settings_;
    Timers timers_;
    IntPasses passes_{};
    std::span<std::int8_t> saved_, plus_;
    std::span<std::int64_t> work_;
};

}  // namespace zo
