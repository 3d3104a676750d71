// Backward through the last of the point-wise layers and the maximum over points behind it.
#pragma once

#include <cstdint>
#include <span>

#include "float_tile_gradient.hpp"
#include "pointwise_mlp.hpp"

namespace zo {

/// A layer to differentiate.
struct GradientJob {
    const PointwiseLayer& layer;
    const float* weights;  ///< its parameters
    float factor;          ///< of the gradient,
    float* gradient;       ///< which is added here
    bool passes_on;        ///< whether the errors of its inputs are needed

    /// Adds the gradient of the norm and of the bias, from the sum of the errors e of the output
    /// and that of e (x - mean) over `count` sums x.
    Mix mix(int output, double errors, double products, double count) const;
};

/// The gradient of a layer whose sums x = W h + bias were not kept.
///
/// Their errors are a e + b (x - mean) + c, where e is the error of the maximum, at few points. The
/// rest is linear in h, as x - mean = W (h - mean). It adds b W C + c n mean to the gradient, where
/// C is the sum of the products of h - mean over all n points, and passes W'bW (h - mean) + W'c on.
/// So with a batch norm every point is multiplied by no more than a matrix from inputs to inputs,
/// and without one, or with a frozen one, by none: b and c are 0 then.
class MaximumGradient {
   public:
    MaximumGradient(const PointwiseMlp& mlp, int tail, const Machine& machine, TileGradient& tiles,
                    Arena& arena);

    /// The error of the maxima, to be set before `add`.
    const FloatMap& error() const { return error_; }
    void add(const GradientJob& job);

   private:
    void mix(const GradientJob& job);
    void add_spread(const GradientJob& job);
    void find_passing(const float* weights);
    void add_covariance(const GradientJob& job);
    void sort_points();
    void add_points(const GradientJob& job);
    void add_points(const GradientJob& job, int sample, int first, int count);

    const PointwiseMlp& mlp_;
    const Machine& machine_;
    TileGradient& tiles_;
    const bool spreads_;  // whether all points have a share in the gradient
    FloatMap error_;
    std::span<Mix> mixes_;
    std::span<float> slopes_;        // [sample][output]: a e
    std::span<std::uint32_t> keys_;  // [sample][output]: place 2^16 + output, in order
    std::span<int> key_counts_;      // [sample]

    // If it spreads.
    std::span<float> means_;               // of h
    std::span<float> covariance_;          // C, rows of whole vectors
    std::span<float> weighted_;            // b W, turned
    std::span<float> passing_, shift_;     // W'bW, rows of whole vectors; W'c
    std::span<const Tap> rows_, columns_;  // of W, and of C
};

}  // namespace zo
