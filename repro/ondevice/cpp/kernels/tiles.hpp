// Sums of int8 windows, by AMX where the instruction set has it.
//
// A tile holds the sums of 16 outputs and one group of samples. One instruction multiplies 16
// neighbouring dwords of the group by those of the outputs' weights, and adds the products exactly.
#pragma once

#include "windows.hpp"

namespace zo::ZO_ISA {

#if defined(__AMX_INT8__)

static_assert(L == 16);  // the samples of a group
inline constexpr bool kTiles = true;
inline constexpr int kTileRows = 16;
inline constexpr int kTileBytes = 64;  // of a row

/// The shapes of the eight tiles, as the processor reads them.
struct alignas(64) TileShapes {
    std::uint8_t palette = 1, unused[15] = {};
    std::uint16_t bytes[16] = {};  // of a row
    std::uint8_t rows[16] = {};

    ZO_INLINE void set(int tile, int tile_rows, int dwords) {
        rows[tile] = std::uint8_t(tile_rows);
        bytes[tile] = std::uint16_t(4 * dwords);
    }
};

/// Tiles 0 to 3 are sums of a block's windows, 4 and 5 weights and inputs of 16 dwords, 6 and 7
/// those of the dwords left over.
ZO_INLINE void shape_tiles(int outputs, int neighbours) {
    TileShapes shapes;
    for (int tile = 0; tile < 4; ++tile) shapes.set(tile, outputs, L);
    shapes.set(4, outputs, kTileRows);
    shapes.set(5, kTileRows, L);
    if (const int left = neighbours % kTileRows) {
        shapes.set(6, outputs, left);
        shapes.set(7, left, L);
    }
    asm volatile("" : : "m"(shapes));  // GCC's intrinsic says that it reads the first 8 bytes only
    _tile_loadconfig(&shapes);
}

// The intrinsics take literal numbers of tiles only.
#define ZO_ADD_WINDOW(number, weights, inputs)                       \
    if constexpr (Count > number) {                                  \
        _tile_loadd(inputs, input + job.window[number], kTileBytes); \
        _tile_dpbsud(number, weights, inputs);                       \
    }
#define ZO_ADD_WINDOWS(weights, inputs)  \
    _tile_loadd(weights, w, job.w_step); \
    ZO_ADD_WINDOW(0, weights, inputs)    \
    ZO_ADD_WINDOW(1, weights, inputs)    \
    ZO_ADD_WINDOW(2, weights, inputs)    \
    ZO_ADD_WINDOW(3, weights, inputs)

/// The sums of `Count` windows, [window][output][sample], without the initial ones.
template <int Count>
ZO_INLINE void tile_sums(const IntWindows& job, int output, const std::uint8_t* x,
                         std::int32_t (&sums)[Count][kTileRows][L]) {
    _tile_zero(0);
    if constexpr (Count > 1) _tile_zero(1);
    if constexpr (Count > 2) _tile_zero(2);
    if constexpr (Count > 3) _tile_zero(3);
    const Tap* const end = job.taps + job.tap_count;
    for (const Tap* tap = job.taps; tap != end; tap += job.neighbours) {
        const std::int8_t* w = job.w + output * job.w_step + 4 * std::ptrdiff_t(tap->w);
        const std::uint8_t* input = x + tap->x;
        int left = job.neighbours;
        for (; left >= kTileRows; left -= kTileRows) {
            ZO_ADD_WINDOWS(4, 5)
            w += kTileBytes;
            input += kTileRows * kTileBytes;
        }
        if (left) {
            ZO_ADD_WINDOWS(6, 7)
        }
    }
    _tile_stored(0, sums[0], kTileBytes);
    if constexpr (Count > 1) _tile_stored(1, sums[1], kTileBytes);
    if constexpr (Count > 2) _tile_stored(2, sums[2], kTileBytes);
    if constexpr (Count > 3) _tile_stored(3, sums[3], kTileBytes);
}

#undef ZO_ADD_WINDOWS
#undef ZO_ADD_WINDOW

/// All blocks for `rows` outputs from `output` on.
template <int Count>
__attribute__((noinline)) void tile_row(const IntWindows& job, int output, int rows,
                                        VectorRange& range) {
    alignas(64) std::int32_t sums[Count][kTileRows][L];
    for (int b = 0; b < job.blocks; ++b) {
        tile_sums<Count>(job, output, job.x + b * job.x_step, sums);
        std::int32_t* const y = job.y + b * job.y_step + output * job.y_output;
        for (int o = 0; o < rows; ++o) {
            const I initial = splat(job.initial ? job.initial[output + o] : 0);
            I sum[Count];
            ZO_FOR (p, Count) sum[p] = load<I>(sums[p][o]) + initial;
            put<Count>(job, sum, y + o * job.y_output, range);
        }
    }
}

inline void tile_windows(const IntWindows& job, VectorRange& range) {
    const int rows = job.outputs < kTileRows ? job.outputs : kTileRows;
    shape_tiles(rows, job.neighbours);
    for (int o = 0; o < job.outputs; o += rows) {
        // the last tile begins early and computes some outputs again, rather than change its shape
        const int first = o + rows <= job.outputs ? o : job.outputs - rows;
        switch (job.windows) {
            case 4: tile_row<4>(job, first, rows, range); break;
            case 2: tile_row<2>(job, first, rows, range); break;
            default: tile_row<1>(job, first, rows, range);
        }
    }
    _tile_release();
}

#else
inline constexpr bool kTiles = false;
#endif

inline void windows_i8(const IntWindows& job, Range& range) {
    VectorRange seen;
#if defined(__AMX_INT8__)
    if (job.neighbours)
        tile_windows(job, seen);
    else
#endif
        windows<IntArithmetic>(job, seen);
    const std::int32_t least = -greatest(-seen.least), most = greatest(seen.greatest);
    range.least = least < range.least ? least : range.least;
    range.greatest = most > range.greatest ? most : range.greatest;
}

}  // namespace zo::ZO_ISA
