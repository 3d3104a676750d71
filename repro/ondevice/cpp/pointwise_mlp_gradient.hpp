// Backward through the layers that all points share.
#pragma once

#include <span>

#include "float_maximum_gradient.hpp"
#include "float_tile_gradient.hpp"
#include "pointwise_mlp.hpp"

namespace zo {

/// The gradient of the last ones of a network's point-wise layers, behind a recorded forward pass.
class PointwiseMlpGradient {
   public:
    /// `mlp`, `machine`: to be there as long as this is. `tail`: index of the first layer to
    /// differentiate.
    PointwiseMlpGradient(const PointwiseMlp& mlp, int tail, const Machine& machine, Arena& arena);

    /// The error of the maxima, to be set before `add`.
    const FloatMap& error() const { return maximum_.error(); }

    /// Adds `factor` times the gradient to `gradient`, which begins with the tail. `parameters`:
    /// of the first point-wise layer and so on.
    void add(const float* parameters, float factor, float* gradient);

   private:
    void add_hidden(const GradientJob& job);
    FloatErrors errors(const PointwiseLayer& layer, const Tile& tile) const;
    void mix(const GradientJob& job);

    const PointwiseMlp& mlp_;
    const int tail_;
    const Machine& machine_;
    TileGradient tiles_;
    MaximumGradient maximum_;
    std::span<Mix> mixes_;
    std::span<ErrorMoments> moments_;  // [output][tile]
    std::span<float> turned_;          // weights, [input][output]
};

}  // namespace zo
