// Maps of float values, and the convolution that turns one into another.
#pragma once

#include <cstddef>
#include <span>

#include "arena.hpp"
#include "conv_windows.hpp"
#include "layer.hpp"
#include "machine.hpp"

namespace zo {

/// Values of a batch, kGroup samples side by side: [group][channel][row][column][kGroup], with a
/// border of zeros around the places if the layer that reads them pads.
struct FloatMap {
    std::span<float> values;
    int channels = 0, height = 0, width = 0, padding = 0;
    int gap = 0;  ///< vectors left out behind each row

    std::ptrdiff_t row() const { return std::ptrdiff_t(width + 2 * padding + gap) * kGroup; }
    std::ptrdiff_t channel() const { return (height + 2 * padding) * row(); }
    std::ptrdiff_t group() const { return channels * channel(); }
    float* at(long g, int c, int y, int x) const {
        return values.data() + g * group() + c * channel() + (y + padding) * row() +
               (x + padding) * kGroup;
    }
    void reserve(Arena& arena, int groups) { arena.reserve(values, groups * group()); }
    /// The same values as if they were of other places; without a border or gaps only.
    FloatMap reshaped(int new_channels, int new_height, int new_width) const {
        return {values, new_channels, new_height, new_width, 0};
    }
};

/// Sums of products of a layer's input and weights.
class FloatConvolution {
   public:
    /// `input`: the shape of the maps to be read. With `pooled`, windows of 2 x 2 sums are pooled.
    /// `arena`: to hold the table of taps.
    FloatConvolution(const Layer& layer, const FloatMap& input, bool pooled, const Machine& machine,
                     Arena& arena);

    /// Computes the output of so many groups; with `rectified`, behind a ReLU.
    void run(const FloatMap& in, int groups, const float* weights, const float* bias,
             bool rectified, const FloatMap& out) const;

    const Layer layer;

   private:
    void run_fully_connected(const FloatWindows& common, const FloatMap& in, int groups,
                             const FloatMap& out) const;
    void run_pooled(const FloatWindows& common, const FloatMap& in, int groups,
                    const FloatMap& out) const;
    void run_rows(const FloatWindows& common, const FloatMap& in, int groups,
                  const FloatMap& out) const;
    void run_row(FloatWindows& job, int columns, int most) const;

    const bool pooled_;
    ConvWindows taps_;
    const Machine& machine_;
};

}  // namespace zo
