// Maps of integer values, and the convolution that turns one into sums.
#pragma once

#include <cstdint>
#include <span>

#include "arena.hpp"
#include "int_layout.hpp"
#include "kernels.hpp"
#include "layer.hpp"
#include "machine.hpp"

namespace zo {

/// Samples a batch is padded to: whole vectors of bytes. Those beyond the batch are zero.
inline constexpr int kBatchUnit = 64;

/// int8 values of a batch: for each channel and place one row of values, a value for each sample,
/// with a border of zeros around the places if the layer that reads them pads.
///
/// Gradients need whole rows. Where nobody does, a row is that of one group and a batch has several
/// parts, so that threads with groups of their own write to no cache line that they share.
struct IntMap {
    std::span<std::int8_t> values;  ///< [parts][channels][padded height][padded width][batch]
    int channels = 0, height = 0, width = 0, padding = 0;
    int batch = 0;  ///< samples of a row
    int parts = 1;

    void reserve(Arena& arena) { arena.reserve(values, elements() * parts); }
    int padded_height() const { return height + 2 * padding; }
    int padded_width() const { return width + 2 * padding; }
    /// Of a part.
    std::size_t elements() const {
        return std::size_t(channels) * padded_height() * padded_width() * batch;
    }
    std::ptrdiff_t row(int channel, int y, int x) const {
        return (std::ptrdiff_t(channel) * padded_height() + y + padding) * padded_width() + x +
               padding;
    }
    std::int8_t* at(int channel, int y, int x) const {
        return values.data() + row(channel, y, x) * batch;
    }
    /// Where the samples of a group begin.
    std::int8_t* at(long group) const {
        const long sample = group * kGroup;
        return values.data() + sample / batch * elements() + sample % batch;
    }
    /// The same rows as if they were of other places; without a border only.
    IntMap reshaped(int new_channels, int new_height, int new_width) const {
        return {values, new_channels, new_height, new_width, 0, batch, parts};
    }
};

/// The sums of a layer, [group][output][row][column][kGroup]. A group's begin at the same place
/// whatever the layer, so that its thread meets what it wrote itself.
struct IntSums {
    std::span<std::int32_t> values;
    std::size_t group = 0;  ///< elements for a group

    std::int32_t* at(long number) const { return values.data() + number * group; }
};

/// Sums of products of a layer's input and weights.
class IntConvolution {
   public:
    /// `signed_input`: whether values below zero can occur. `arena`: to hold all its memory.
    IntConvolution(const Layer& layer, bool signed_input, const Machine& machine, Arena& arena);

    /// To be called once, after the arena was allocated.
    void prepare();

    /// Reads the input of so many groups of samples; `map` has the layer's padding.
    void read(const IntMap& map, int groups);
    /// The same for one of them.
    void read_group(const IntMap& map, long group);

    /// Reads the sums that the layer before left, shifted by so much.
    void read(const IntSums& sums, int groups, int shift, bool rectified);

    /// Reads the weights, [outputs][fan in]; they must stay where they are until `run` is done.
    void take(std::span<const std::int8_t> weights);

    /// Computes all sums; returns their range.
    ///
    /// With `pooled`, sums are the maxima of windows of 2 x 2; the range is still that of all. With
    /// `wraps`, all sums are cast to int8 first.
    Range run(const IntSums& sums, int groups, bool pooled, bool wraps) const;

    const Layer layer;

   private:
    IntConvolution(const Layer& layer, bool signed_input, const Machine& machine, Arena& arena,
                   IntLayout layout);
    IntWindows job() const;
    /// What makes signed inputs those that the machine multiplies.
    std::uint8_t flip() const { return offset_ ? 0x80 : 0; }
    void pack(std::span<const std::int8_t> weights);
    Range run_fully_connected(const IntSums& sums, int groups) const;
    Range run_pooled(const IntSums& sums, int groups, bool wraps) const;
    Range run_rows(const IntSums& sums, int groups) const;

    const Machine& machine_;
    const bool offset_;  // whether 128 is added to inputs
    // What IntLayout has under these names, and its `weights`, which here are places.
    const int pixel_dwords_, dwords_, neighbours_;
    const bool direct_;
    std::span<const std::int32_t> sources_, filled_, features_, places_;
    ConvWindows row_taps_, pooled_taps_;
    std::span<std::uint8_t> input_;  // [group][dwords][kGroup][4]
    std::span<std::int8_t> packed_;
    std::span<std::int32_t> initial_;
    std::span<const std::int8_t> weights_;
};

}  // namespace zo
