#include "float_convolution.hpp"

#include <algorithm>

#include "parallel.hpp"

namespace zo {
namespace {

std::vector<TapReach> reaches(const Layer& l, const FloatMap& map) {
    std::vector<TapReach> taps;
    for (int c = 0; c < l.channels; ++c)
        for (int y = 0; y < l.kernel_height; ++y)
            for (int x = 0; x < l.kernel_width; ++x) {
                const std::ptrdiff_t place = c * map.channel() + y * map.row() + x * kGroup;
                taps.push_back({{std::int32_t(place), std::int32_t(taps.size())}, y, y, x, x});
            }
    return taps;
}

}  // namespace

FloatConvolution::FloatConvolution(const Layer& l, const FloatMap& input, bool pooled,
                                   const Machine& machine, Arena& arena)
    : layer(l),
      pooled_(pooled),
      taps_(l, pooled ? 2 : 1, reaches(l, input), arena),
      machine_(machine) {}

void FloatConvolution::run(const FloatMap& in, int groups, const float* weights, const float* bias,
                           bool rectified, const FloatMap& out) const {
    FloatWindows common{};
    set_taps(common, taps_.all());
    common.w = weights;
    common.w_step = layer.fan_in();
    common.initial = bias;
    common.outputs = layer.outputs;
    common.y_output = out.channel();
    common.special = rectified;
    if (layer.fully_connected()) return run_fully_connected(common, in, groups, out);
    if (pooled_) return run_pooled(common, in, groups, out);
    run_rows(common, in, groups, out);
}

/// Groups are computed together: the weights are the longer operand.
void FloatConvolution::run_fully_connected(const FloatWindows& common, const FloatMap& in,
                                           int groups, const FloatMap& out) const {
    const long parts = jobs_of(layer.outputs), quads = (groups + 3) / 4;
    const int threads = sharing(machine_.threads, layer.weights() * groups);
    parallel(threads, parts * quads, [&](long number) {
        const int first = int(number % parts) * kOutputsOfAJob;
        FloatWindows job = common;
        job.w += first * job.w_step;
        if (job.initial) job.initial += first;
        job.outputs = std::min(kOutputsOfAJob, layer.outputs - first);
        job.blocks = 1;
        for (int g = int(number / parts) * 4, end = std::min(g + 4, groups); g < end;
             g += job.windows) {
            job.windows = side_by_side(end - g);
            job.x = in.values.data() + g * in.group();
            job.y = out.at(g, first, 0, 0);
            for (int p = 0; p < job.windows; ++p) {
                job.window[p] = p * in.group();
                job.y_window[p] = p * out.group();
            }
            machine_.kernels.windows_f32(job);
        }
    });
}

void FloatConvolution::run_pooled(const FloatWindows& common, const FloatMap& in, int groups,
                                  const FloatMap& out) const {
    const int rows = layer.pooled_rows(), columns = layer.pooled_columns();
    parallel(machine_.threads, long(groups) * rows, [&](long number) {
        const long g = number / rows;
        const int row = int(number % rows);
        FloatWindows job = common;
        job.maximum = true;
        job.windows = 4;
        for (int p = 0; p < 4; ++p) job.window[p] = p / 2 * in.row() + p % 2 * kGroup;
        job.x_step = 2 * kGroup;
        job.y_step = kGroup;
        const float* const x = in.values.data() + g * in.group() + 2 * row * in.row();
        for (int c = 0; c < columns; c += job.blocks) {
            job.blocks = taps_.run(c);
            set_taps(job, taps_.at(row, c));
            job.x = x + c * job.x_step;
            job.y = out.at(g, 0, row, c);
            machine_.kernels.windows_f32(job);
        }
    });
}

void FloatConvolution::run_rows(const FloatWindows& common, const FloatMap& in, int groups,
                                const FloatMap& out) const {
    constexpr int kColumns = 128;  // of a job
    constexpr int kInputs =
        1 << 15;  // of the windows at a time, to be in the cache for all outputs
    const int most =
        int(std::max<std::size_t>(1, kInputs / (std::size_t(4) * kGroup * layer.fan_in())));
    const int rows = layer.rows(), parts = (layer.columns() + kColumns - 1) / kColumns;
    parallel(machine_.threads, long(groups) * rows * parts, [&](long number) {
        const long g = number / parts / rows;
        const int row = int(number / parts % rows), first = int(number % parts) * kColumns;
        FloatWindows job = common;
        set_taps(job, taps_.of_row(row));
        job.x = in.values.data() + g * in.group() + row * in.row() + first * kGroup;
        job.y = out.at(g, 0, row, first);
        run_row(job, std::min(kColumns, layer.columns() - first), most);
    });
}

/// Computes windows side by side, at most so many blocks of them at a time.
void FloatConvolution::run_row(FloatWindows& job, int columns, int most) const {
    for (int p = 0; p < 4; ++p) job.window[p] = job.y_window[p] = p * kGroup;
    for (int left = columns; left > 0; left -= job.windows * job.blocks) {
        job.windows = side_by_side(left);
        job.blocks = std::min(left / job.windows, most);
        job.x_step = job.y_step = job.windows * kGroup;
        machine_.kernels.windows_f32(job);
        job.x += job.blocks * job.x_step;
        job.y += job.blocks * job.y_step;
    }
}

}  // namespace zo
