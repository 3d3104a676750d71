// Products whose vectors are columns of a matrix.
#pragma once

#include <span>

#include "kernels.hpp"
#include "layer.hpp"

namespace zo {

/// Columns in vectors, of which a block has 1, 2 or 4; the last vector may be filled up.
struct Columns {
    int vectors, together;

    explicit Columns(int count)
        : vectors((count + kGroup - 1) / kGroup),
          together(vectors % 4 == 0   ? 4
                   : vectors % 2 == 0 ? 2
                                      : 1) {}
    int padded() const { return vectors * kGroup; }
    int block() const { return together * kGroup; }
};

/// y[o][column] = sum over taps of w[o][t.w] x[t.x + column]; x, w, their steps and outputs are
/// left to be set.
inline FloatWindows windows_of_columns(Columns columns, std::span<const Tap> taps, float* y) {
    FloatWindows job{};
    job.windows = columns.together;
    for (int p = 0; p < job.windows; ++p) job.window[p] = job.y_window[p] = p * kGroup;
    job.x_step = job.y_step = columns.block();
    job.blocks = columns.vectors / columns.together;
    job.taps = taps.data();
    job.tap_count = int(taps.size());
    job.y = y;
    job.y_output = columns.padded();
    return job;
}

}  // namespace zo
