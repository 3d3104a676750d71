// ElasticZO (Algorithm 1 of arXiv 2501.04287) in float32.
#pragma once

#include <cstdint>
#include <optional>

#include "float_network.hpp"
#include "kept_noise.hpp"
#include "timers.hpp"

namespace zo {

struct FloatSettings {
    float eps = 1e-2f;                      ///< scale of the perturbation
    float clip = 0.3f;                      ///< g_clip; may be infinite
    float plus_share = 1, minus_share = 0;  ///< of the passes' gradients in the tail's
    std::uint64_t seed = 0;

    /// Throws std::invalid_argument.
    void check() const;
};

struct FloatStep {
    double plus, minus;  ///< mean losses; without a head, plus is that of the only pass
    float gradient;      ///< g, clipped
    std::uint64_t key;   ///< of the noise
    bool finite;         ///< if not, the weights are those from before the step, but for rounding
};

class FloatTraining {
   public:
    FloatTraining(std::vector<Layer> layers, int tail, Machine machine, FloatSettings settings);

    FloatNetwork& network() { return network_; }
    FloatSettings& settings() { return settings_; }
    Timers& timers() { return timers_; }

    /// One step on a batch; labels are checked by the caller.
    FloatStep step(const float* inputs, std::span<const std::int64_t> labels, std::uint64_t number,
                   float lr);

    /// theta += factor z(key), before the tail.
    void move(std::uint64_t key, float factor);

   private:
    double pass(std::span<const std::int64_t> labels, float share);
    void finish(bool finite, float lr);

    FloatNetwork network_;
    FloatSettings settings_;
    Timers timers_;
    std::span<float> error_, kept_;  // kept_: the noise drawn last, or nothing
    std::optional<std::uint64_t> kept_key_;
};

/// The mean cross-entropy of logits [batch][classes], summed in float64. With `error`, its
/// gradient.
double cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                     float* error);

}  // namespace zo
