// The layers that all points of a cloud share, and the maximum over points behind them (PointNet,
// Qi et al. 2017).
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "float_norm.hpp"

namespace zo {

/// Channels of points in quads: [group][quad of points][channel][4][kGroup].
struct QuadMap {
    std::span<float> values;
    std::ptrdiff_t quad_step = 0;
    int quads = 0;  ///< of a cloud

    float* at(long g, int quad) const { return values.data() + (g * quads + quad) * quad_step; }
};

/// Computes tiles of some points each, whose inputs stay in a cache for all outputs.
///
/// A layer's sums are kept as they are; the batch norm and the ReLU are done when the next layer
/// reads them. Those of the last one are not kept: of them the maximum over points is known by the
/// greatest sum of a cloud, or by the least where the norm's scale is negative, since neither the
/// norm nor the ReLU changes the order of sums.
class SharedLayers {
   public:
    /// How many layers at the beginning of a network these are, or 0.
    static int count(std::span<const Layer> layers);

    /// `layers`, `machine`: to be there as long as this is.
    SharedLayers(std::span<const Layer> layers, const Machine& machine, Arena& arena);
    /// To be called once, after the arena was allocated.
    void prepare();

    const FloatMap& input() const { return input_; }
    /// Running means and variances of each batch norm, [2][outputs].
    std::vector<std::span<float>> statistics();

    /// Computes the maxima from a batch in `input`; `parameters`: of the first layer and so on.
    void forward(const float* parameters, int batch, Pass pass, const FloatMap& out);

   private:
    struct Stage {
        const Layer& layer;
        int tile;  // quads
        std::unique_ptr<FloatNorm> norm;
        std::span<Affine> affines;  // from the sums to what the next layer reads, but for a ReLU
    };
    struct Tile {
        long group;
        int quad, quads, samples, places;
    };

    int groups() const { return (batch_ + kGroup - 1) / kGroup; }
    Tile tile(const Stage& stage, long group, int quad) const;
    void run(std::size_t number, const float* weights, Pass pass);
    void gather(std::size_t number, const Tile& tile, float* y) const;
    void normalise(Stage& stage, const float* scales, Pass pass);
    ChannelMoments moments(const Stage& stage, int channel) const;
    void pool(const Stage& stage, const float* scales, const FloatMap& out) const;

    const Machine& machine_;
    const int points_, quads_, strip_;  // strip_: quads of a job
    FloatMap input_;
    std::deque<Stage> stages_;
    QuadMap sums_;  // of one hidden layer after the other
    std::span<const Tap> taps_;
    std::span<float> scratch_;    // for each thread, a tile's inputs and the sums of some outputs
    std::span<Moments> moments_;  // [output][tile]
    std::span<float> greatest_;   // [group][strip][output][kGroup]
    int batch_ = 0;
};

}  // namespace zo
