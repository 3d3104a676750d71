// The layers that all points of a cloud share, and the maximum over points behind them (PointNet,
// Qi et al. 2017).
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "float_norm.hpp"

namespace zo {

inline constexpr int kQuad = 4 * kGroup;  ///< numbers of a channel of four points, side by side

/// Channels of points in quads: [group][quad of points][channel][4][kGroup].
struct QuadMap {
    std::span<float> values;
    std::ptrdiff_t quad_step = 0;
    int quads = 0;  ///< of a cloud

    float* at(long g, int quad) const { return values.data() + (g * quads + quad) * quad_step; }
};

/// Points of the clouds of a group that are computed together.
struct Tile {
    long group;
    int quad;  ///< the first one
    int places, samples;

    int quads() const { return (places + 3) / 4; }
    double count() const { return double(places) * samples; }
};

struct PointwiseLayer {
    const Layer& layer;
    int index;
    std::size_t offset;  ///< of its parameters
    int tile;            ///< quads of a tile
    int tiles;           ///< of a cloud
    std::unique_ptr<FloatNorm> norm;
    std::span<Affine> affines;  ///< from the sums to what the next layer reads, but for the ReLU
    QuadMap sums;               ///< unused for the last one
};

/// Computes a tile of points at a time, whose inputs stay in a cache for all outputs.
///
/// A layer's sums are kept as they are; the batch norm and the ReLU are done when the next layer
/// reads them. Those of the last one are not kept: the maximum over points is that of the greatest
/// sum of a cloud, or of the least where the norm's scale is negative, since neither the norm nor
/// the ReLU changes the order of sums.
class PointwiseMlp {
   public:
    /// How many layers at the beginning of a network these are, or 0.
    static int count(std::span<const Layer> layers);

    /// `layers`, `machine`: to be there as long as this is. `tail`: index of the first layer that
    /// keeps its sums for a backward pass.
    PointwiseMlp(std::span<const Layer> layers, int tail, const Machine& machine, Arena& arena);
    /// To be called once, after the arena was allocated.
    void prepare();

    const FloatMap& input() const { return input_; }
    /// Running means and variances of each batch norm, [2][outputs].
    std::vector<std::span<float>> statistics();

    /// Computes the maxima from a batch in `input`; `parameters`: of the first layer and so on.
    void forward(const float* parameters, int batch, Pass pass, const FloatMap& out);

    // For a backward pass behind a recorded one.

    const std::deque<PointwiseLayer>& layers() const { return layers_; }
    int batch() const { return batch_; }
    int groups() const { return (batch_ + kGroup - 1) / kGroup; }
    int points() const { return points_; }
    Tile tile(const PointwiseLayer& layer, int number) const;
    /// What a layer reads of a tile, less `centers` if there are any.
    void gather(const PointwiseLayer& layer, const Tile& tile, const float* centers,
                float* y) const;
    /// Of an input of the last layer.
    float input_mean(int channel) const;
    /// Reads so many inputs of a layer at a point of a sample.
    void read_point(const PointwiseLayer& layer, int sample, int place, int first, int count,
                    float* y) const;
    /// The greatest sum of the last layer in a cloud, or the least, and which point has it.
    float extreme(int sample, int output) const;
    int place(int sample, int output) const;
    /// What the norm makes of a sum of the last layer.
    float normed(int output, float sum) const;

   private:
    void run(const PointwiseLayer& layer, const float* weights, Pass pass);
    void run_tile(const PointwiseLayer& layer, int number, const float* weights, Pass pass,
                  std::ptrdiff_t strip);
    void normalise(PointwiseLayer& layer, const float* scales, Pass pass);
    ChannelMoments moments(const PointwiseLayer& layer, int channel) const;
    double mean(const PointwiseLayer& layer, std::span<const Moments> tiles) const;
    void pool(const float* scales, const FloatMap& out);
    std::size_t extreme_of(long strip, int output) const {
        return (strip * layers_.back().layer.outputs + output) * kGroup;
    }

    const Machine& machine_;
    const int points_, quads_, strip_;  // strip_: quads of a job
    const int strips_;                  // of a cloud
    FloatMap input_;
    std::deque<PointwiseLayer> layers_;
    std::span<float> sums_;  // of one layer before the tail after the other
    std::span<const Tap> taps_;
    std::span<float> scratch_;          // for each thread, a tile's inputs and some outputs' sums
    std::span<Moments> moments_;        // [output][tile]
    std::span<Moments> input_moments_;  // [input][tile] of the last layer, for a backward pass
    std::span<float> extremes_;         // [group][strip][output][kGroup]
    std::span<std::uint16_t> choices_;  // their places
    int batch_ = 0;
};

/// Sums of a tile: windows of four points side by side, [quad][channel][4][kGroup].
FloatWindows windows_of_quads(std::span<const Tap> taps, int channels, int quads);
/// The taps of up to so many channels in a quad.
std::vector<Tap> taps_of_quads(int channels);

}  // namespace zo
