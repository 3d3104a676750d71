// The inner loops, compiled once for each instruction set and chosen at run time.
//
// A kernel works on plain memory and knows nothing of layers. It is single-threaded; the engine
// shares jobs among threads, and no result depends on how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zo {

/// A product of a window: the input's place, from the window's first element on, and the weight.
struct Tap {
    std::int32_t x, w;
};

/// Sums of products of windows of the input with rows of weights.
///
/// Blocks of 1, 2 or 4 windows are computed together, each for all outputs:
/// sum[o][p] = initial[o] + sum over taps t of x[block + window[p] + t.x] * w[o][t.w].
/// X is a vector of kGroup samples in memory; for int8 each sample has 4 bytes, and w[o][t.w] too.
template <class X, class W, class Y>
struct Windows {
    const X* x;
    int windows;               ///< 1, 2 or 4
    std::ptrdiff_t window[4];  ///< where each window begins, in elements of X
    std::ptrdiff_t x_step;     ///< from block to block
    int blocks;
    const Tap* taps;
    int tap_count;
    int neighbours;  ///< not 0: taps come in rows of so many side by side in both x and w
    const W* w;
    std::ptrdiff_t w_step;  ///< from output to output
    const Y* initial;       ///< one for each output, or null for zeros
    int outputs;
    Y* y;
    std::ptrdiff_t y_output, y_step;  ///< from output to output, from block to block
    std::ptrdiff_t y_window[4];       ///< unused with `maximum`
    bool maximum;                     ///< of a block's windows (pooling), else each of them
    bool special;                     ///< float: ReLU. int8: NITI's cast, which wraps 128
};
using FloatWindows = Windows<float, float, float>;
using IntWindows = Windows<std::uint8_t, std::int8_t, std::int32_t>;

/// Least and greatest sum seen.
struct Range {
    std::int32_t least = 0, greatest = 0;
};

/// Products of errors and inputs summed over samples and positions: one block of a gradient.
///
/// sum[o][t] over chunks, rows and columns of e[o] * x[tap[t]]; a chunk is one vector. Of int8 a
/// row may have at most 2^10 columns.
template <class E, class X, class S>
struct Products {
    const E* e;
    std::ptrdiff_t e_output, e_chunk, e_row, e_column;
    int outputs;
    const X* x;
    std::ptrdiff_t x_chunk, x_row, x_column;
    const std::int32_t* taps;
    int tap_count;
    int chunks, rows, columns;
    S* sums;                     ///< added to
    std::ptrdiff_t sums_output;  ///< from output to output; taps lie side by side
    S factor;                    ///< of the products
};
using FloatProducts = Products<float, float, float>;
using IntProducts = Products<std::int8_t, std::int8_t, std::int64_t>;

/// The gradient of a fully connected layer: sum[o][t] of e[o][b] * x[t][b] over samples b.
struct IntOuter {
    const std::int8_t* e;  ///< rows of samples; those up to a multiple of 64 are readable,
    std::ptrdiff_t e_output;
    int outputs;
    const std::int8_t* x;  ///< and of the errors, zero
    std::ptrdiff_t x_tap;
    int tap_count;
    int samples;
    std::int32_t* sums;  ///< written, not added to
    std::ptrdiff_t sums_output;
};

/// The gradient of a fully connected layer in float: factor e[o][b] x[t][b], summed over samples b.
struct FloatOuter {
    const float* e;  ///< [chunks][outputs][kGroup], zero beyond the batch
    std::ptrdiff_t e_output, e_chunk;
    int outputs;
    const float* x;  ///< [chunks] of rows of kGroup samples, which `taps` finds
    std::ptrdiff_t x_chunk;
    const std::int32_t* taps;
    int tap_count;
    int chunks;
    float* sums;  ///< added to
    std::ptrdiff_t sums_output;
    float factor;
};

/// From accumulators to int8, with ReLU and pooling (docs/integer.md: nearest, or a cast).
struct Narrow {
    const std::int32_t* x;  ///< [rows][columns][kGroup]
    int rows, columns, pool_height, pool_width;
    int shift;  ///< k; at most 0 is a cast
    bool rectified;
    std::int8_t* y;                  ///< kGroup values for each window
    std::ptrdiff_t y_row, y_column;  ///< in elements
    std::uint16_t* choices;          ///< the window's first maximum, kNone where a ReLU is shut;
    std::ptrdiff_t choice_step;      ///< from window to window; null if nobody needs them
};
/// From accumulators to int8 with ReLU, in the order in which dot products read it.
struct Pack {
    const std::int32_t* x;        ///< [features][kGroup]
    const std::int32_t* dwords;   ///< which to write; the others stay as they are
    const std::int32_t* sources;  ///< [4 count] features, -1 for none
    int count;
    int shift;  ///< as in Narrow
    bool rectified;
    std::uint8_t flip;  ///< as in interleave
    std::uint8_t* y;    ///< [dwords][kGroup][4]
};
/// ReLU and pooling of float sums; see Narrow.
struct FloatPool {
    const float* x;
    int rows, columns, pool_height, pool_width;
    bool affine;  ///< whether sums are factor * x + summand, as a batch norm makes them
    float factor, summand;
    bool rectified;
    float* y;
    std::ptrdiff_t y_row, y_column;
    std::uint16_t* choices;
    std::ptrdiff_t choice_step;
};
inline constexpr std::uint16_t kNone = 0xFFFF;

/// A channel of one group: sums side by side, and their errors in rows.
struct FloatChannel {
    const float* x;  ///< [rows][columns][kGroup]
    float* e;
    std::ptrdiff_t e_row;
    int rows, columns;
};

/// What a batch norm makes of a channel: factor * x + summand.
struct Affine {
    float factor, summand;
};

/// Copies channels of points into quads, [quad][channel][4][kGroup], on the way behind a batch norm
/// and a ReLU. Where there is no place or no sample come zeros.
struct FloatGather {
    const float* x;  ///< four places of a channel side by side
    std::ptrdiff_t x_quad, x_channel;
    int channels, places, samples;
    const Affine* affines;  ///< one for each channel, or null
    bool rectified;
    const float* centers;  ///< to be taken off, one for each channel, or null
    float* y;
};

/// Rows of places in quads.
struct FloatRows {
    const float* x;
    std::ptrdiff_t x_row, x_quad;
    int rows, places;
};

/// Of some numbers: the mean, and the sum of the squares of their differences from it.
struct Moments {
    float mean, squares;
};

/// Errors of the output of a batch norm and a ReLU, and the sums that these were given; quads of
/// channels, [quad][channel][4][kGroup].
struct FloatErrors {
    const float *e, *x;
    std::ptrdiff_t e_quad, x_quad;
    int channels, places, samples;
    const Affine* affines;  ///< of the norm, and 1, 0 without one
    bool rectified;
    const float* means;  ///< of the sums, or null for zeros
};

/// The sum of errors e, and that of e (x - mean).
struct ErrorMoments {
    float sum, products;
};

/// From an error e to that of the sum: a e + b (x - mean) + c.
struct Mix {
    float a, b, c;
};

/// The sparse integer noise z of a step (docs/integer.md).
struct IntNoise {
    std::uint64_t key;
    int r_max, kept;  ///< kept: threshold of the low 16 bits
};

/// A move of integer weights along z: to = clip(from + factor z).
struct IntMove {
    const std::int8_t* from;
    std::int8_t* to;
    const std::int8_t* z;  ///< from -127 to 127
    std::size_t count;
    int factor;  ///< from -2 to 1
};

/// to = clip(clip(from + factor z) - round(g z)), rounded by a shift like a gradient.
struct IntDescent {
    IntMove move;
    int g, shift;
    bool vanishes;  ///< whether every rounded value is zero
};

/// The magnitude of random signs. With 1 itself, eps z may lie on the border of two levels of a
/// lattice, and rounding would break the symmetry (repro.methods.rademacher).
inline constexpr float kSignMagnitude = 1 - 0x1p-24f;

/// A pass over 16-bit weights on a lattice, from theta + before eps z on: to theta + after eps z,
/// or to the lattice point around it that a random number chooses. See repro.methods.lattice.
struct LatticePass {
    float scale, levels,
        step;          ///< eps z is a level, floor(scale z) within +-levels, and 1/2, of step
    float bound, ulp;  ///< M, and the spacing of the format at 1
    std::uint32_t significand;  ///< p - 1, as an exponent of float32
    float before, after;
    bool descends;
    std::uint64_t key = 0;           ///< of the random numbers, ...
    std::uint32_t place = 0;         ///< ... and the first counter
    const float* uniform = nullptr;  ///< the random numbers themselves, if they are drawn already
};

/// The sums of a few outputs of a convolution over one sample. Up to a vector may be read before
/// and behind a row of `x`; it counts as zero.
struct IntPlanes {
    static constexpr int kMost = 4;
    const std::int8_t* x;  ///< [channels][height][width]
    int channels, height, width;
    const std::int8_t* w;  ///< [outputs][channels][kernel_height][kernel_width]
    int kernel_height, kernel_width, padding;
    std::int32_t* y;  ///< [outputs][rows][columns]
    int rows, columns;
    int outputs;  ///< from 1 to kMost
};

/// Writes z[first], ..., z[first + count - 1] of a stream to z[0], ...
using DrawFloats = void (*)(std::uint64_t key, std::size_t first, std::size_t count, float* z);

enum class HalfFormat { kBfloat16, kFloat16 };

/// Changes of weights in a 16-bit format: along z, or along signs, which are drawn as they are
/// needed, from a multiple of 512 on.
struct HalfKernels {
    /// theta[i] += factor z[i]: float32 sums, rounded to the nearest even.
    void (*move)(std::uint16_t* theta, const float* z, std::size_t count, float factor);
    void (*move_by_signs)(std::uint16_t* theta, std::uint64_t key, std::size_t first,
                          std::size_t count, float factor);
    void (*lattice_pass)(const LatticePass&, std::uint16_t* theta, const float* z,
                         std::size_t count);
    void (*lattice_pass_by_signs)(const LatticePass&, std::uint16_t* theta, std::uint64_t key,
                                  std::size_t first, std::size_t count);
};

struct Kernels {
    const char* name;
    bool unsigned_inputs;  ///< whether int8 inputs have 128 added
    bool tiles;            ///< whether windows_i8 is faster with neighbours
    int products_chunk;    ///< samples in a chunk of IntProducts
    void (*windows_f32)(const FloatWindows&);
    void (*windows_i8)(const IntWindows&, Range&);
    void (*products_f32)(const FloatProducts&);
    void (*products_i8)(const IntProducts&);
    void (*outer_f32)(const FloatOuter&);
    void (*outer_i8)(const IntOuter&);
    void (*planes_i8)(const IntPlanes&);
    /// The sum of a[i] b[i].
    std::int32_t (*dot_i8)(const std::int8_t* a, const std::int8_t* b, std::size_t count);
    /// y[i] += w x[i].
    void (*add_i8)(std::int32_t* y, std::int32_t w, const std::int8_t* x, std::size_t count);
    /// to[b] = choices[b] == choice ? from[b] : 0, for a multiple of kGroup of samples.
    void (*route_i8)(const std::int8_t* from, const std::uint16_t* choices, int choice, int count,
                     std::int8_t* to);
    /// The largest magnitude.
    std::uint64_t (*largest_i32)(const std::int32_t* sums, std::size_t count);
    std::uint64_t (*largest_i64)(const std::int64_t* sums, std::size_t count);
    /// Rounds pseudo-stochastically by a shift k >= 1, and clips.
    void (*round_i32)(const std::int32_t* sums, std::size_t count, int k, std::int8_t* rounded);
    void (*round_i64)(const std::int64_t* sums, std::size_t count, int k, std::int8_t* rounded);
    void (*narrow)(const Narrow&);
    void (*pack)(const Pack&);
    void (*pool_f32)(const FloatPool&);
    /// sums[0][lane], sums[1][lane]: of d = x - center and of its squares.
    void (*moments_f32)(const float* x, int vectors, float center, float* sums);
    /// sums[0][lane], sums[1][lane]: of e and of e d.
    void (*error_moments_f32)(const FloatChannel&, float center, float* sums);
    /// e = a e + b x + c in the first `lanes` lanes, 0 in the others.
    void (*mix_f32)(const FloatChannel&, float a, float b, float c, int lanes);
    void (*gather_f32)(const FloatGather&);
    /// Writes those of the first `samples` lanes of each row.
    void (*row_moments_f32)(const FloatRows&, int samples, Moments* moments, std::ptrdiff_t step);
    /// greatest[row][lane]: of what was there and of the places' values, which are taken negative
    /// where scales[row] is; no scales are as good as positive ones. With `choices`, also the first
    /// place that has it; `first`: number of the first place.
    void (*row_maxima_f32)(const FloatRows&, const float* scales, float* greatest,
                           std::uint16_t* choices, int first);
    void (*row_error_moments_f32)(const FloatErrors&, ErrorMoments* moments, std::ptrdiff_t step);
    /// Copies errors of sums as FloatGather does.
    void (*gather_errors_f32)(const FloatErrors&, const Mix* mixes, float* y);
    /// rows[i][lane] = samples[lane][i], or 0 for lanes from `lanes` on.
    void (*transpose_i8)(const std::int8_t* samples, std::ptrdiff_t sample_step, int lanes,
                         int count, std::int8_t* rows, std::ptrdiff_t row_step);
    void (*transpose_f32)(const float* samples, std::ptrdiff_t sample_step, int lanes, int count,
                          float* rows, std::ptrdiff_t row_step);
    /// out[d][lane][j] = rows[source[4 d + j]][lane] ^ flip, or 0 where the source is -1.
    void (*interleave)(const std::int8_t* rows, std::ptrdiff_t row_step,
                       const std::int32_t* sources, int dwords, std::uint8_t flip,
                       std::uint8_t* out);
    /// Writes z[first], ..., z[first + count - 1] to z[0], ...; returns the largest magnitude.
    int (*noise_i8)(const IntNoise&, std::size_t first, std::size_t count, std::int8_t* z);
    /// Returns how many weights were clipped.
    std::size_t (*move_i8)(const IntMove&);
    void (*descend_i8)(const IntDescent&);
    /// Writes standard normal noise; first is a multiple of 2 kGroup.
    DrawFloats gaussian_f32;
    /// Writes random signs of magnitude 1 - 2^-24; first is a multiple of 512.
    DrawFloats signs_f32;
    /// z[i] = left[0] right[i] + left[1] right[step + i] + ..., rank numbers in this order.
    void (*product_f32)(const float* left, const float* right, std::size_t step, std::size_t rank,
                        std::size_t count, float* z);
    /// theta[i] += factor z[i].
    void (*move_f32)(float* theta, const float* z, std::size_t count, float factor);
    HalfKernels halves[2];  ///< by HalfFormat
    /// Multiplies as fast as it can, so many rounds; returns the number of multiplications.
    long (*peak_f32)(long rounds);
    long (*peak_i8)(long rounds);
};

/// Names of the instruction sets that this program has kernels for and this machine can run, best
/// first.
std::vector<std::string> instruction_sets();

/// The kernels of that name, or the best for "auto". Throws std::invalid_argument.
/// Without `tiles` those kernels are not called that need the permission to use them.
const Kernels& kernels(const std::string& name, bool tiles = true);

}  // namespace zo
