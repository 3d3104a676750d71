#include "float_tile_gradient.hpp"

#include <algorithm>

#include "columns.hpp"

namespace zo {
namespace {

/// The points of a tile: where they are in turned inputs, and in errors of so many rows.
std::vector<Tap> taps_of_points(const PointwiseLayer& s, int rows) {
    std::vector<Tap> taps;
    const int block = Columns(s.layer.channels).block();
    for (int n = 0; n < s.tile * kQuad; ++n)
        taps.push_back({n * block, n / kQuad * rows * kQuad + n % kQuad});
    return taps;
}

}  // namespace

TileGradient::TileGradient(const PointwiseMlp& mlp, int tail, const Machine& machine, Arena& arena)
    : mlp_(mlp), tail_(tail), machine_(machine) {
    std::size_t partial = 0;
    int most_rows = 0;
    for (const PointwiseLayer& s : mlp.layers()) {
        if (s.index < tail) continue;
        const Layer& l = s.layer;
        const bool last = &s == &mlp.layers().back();
        const int rows = last ? l.channels : l.outputs;  // see MaximumGradient
        const std::size_t points = s.tile * kQuad, width = Columns(l.channels).padded();
        inputs_ = std::max(inputs_, points * l.channels);
        errors_of_tile_ = std::max(errors_of_tile_, points * rows);
        turned_ = std::max(turned_, points * width);
        sums_ = std::max(sums_, std::max(rows, kOutputsOfAJob) * width);  // of add_covariance, too
        partial = std::max(partial, this->partial(s, rows));
        most_rows = std::max(most_rows, rows);
        arena.keep(points_.emplace_back(), taps_of_points(s, rows));
        if (last) continue;
        errors_.quads = s.sums.quads;
        errors_.quad_step = std::max(errors_.quad_step, std::ptrdiff_t(l.outputs) * kQuad);
    }
    const std::size_t groups = machine.capacity / kGroup;
    arena.keep(taps_, taps_of_quads(most_rows));
    arena.reserve(errors_.values, groups * errors_.quads * errors_.quad_step);
    arena.reserve(partials_, kSlices * partial);
    arena.reserve(scratch_, machine.threads * (inputs_ + errors_of_tile_ + turned_ + sums_));
}

std::size_t TileGradient::partial(const PointwiseLayer& s, int rows) const {
    return std::size_t(rows) * Columns(s.layer.channels).padded();
}

float* TileGradient::begin(const PointwiseLayer& s, int rows, int slice) {
    const std::size_t size = partial(s, rows);
    return std::fill_n(partials_.data() + slice * size, size, 0.0f) - size;
}

float TileGradient::sum(const PointwiseLayer& s, int rows, int row, int input) const {
    const std::size_t size = partial(s, rows), at = partial(s, row) + input;
    float all = 0;
    for (int slice = 0; slice < kSlices; ++slice) all += partials_[slice * size + at];
    return all;
}

TileGradient::Scratch TileGradient::scratch() const {
    float* const own = scratch_.data() + worker() * (scratch_.size() / machine_.threads);
    float *const errors = own + inputs_, *const turned = errors + errors_of_tile_;
    return {own, errors, turned, turned + turned_};
}

/// Adds the products of a tile's errors and inputs, whose vectors are turned to be channels.
void TileGradient::multiply(const PointwiseLayer& s, const Tile& t, const Scratch& own,
                            const float* errors, int rows, float* partial) const {
    const int channels = s.layer.channels, points = t.quads() * kQuad;
    const Columns columns(channels);
    const std::ptrdiff_t block = std::ptrdiff_t(points) * columns.block();
    for (int q = 0; q < t.quads(); ++q)
        for (int c = 0; c < channels; c += kGroup)
            machine_.kernels.transpose_f32(own.inputs + (std::ptrdiff_t(q) * channels + c) * kQuad,
                                           kQuad, std::min(kGroup, channels - c), kQuad,
                                           own.turned + c / columns.block() * block +
                                               q * kQuad * columns.block() + c % columns.block(),
                                           columns.block());
    FloatWindows job =
        windows_of_columns(columns, points_[s.index - tail_].first(points), own.sums);
    job.x = own.turned;
    job.x_step = block;
    job.w = errors;
    job.w_step = kQuad;
    job.outputs = rows;
    machine_.kernels.windows_f32(job);
    const std::size_t size = this->partial(s, rows);
    for (std::size_t i = 0; i < size; ++i) partial[i] += own.sums[i];
}

void TileGradient::pass(const PointwiseLayer& s, const Tile& t, const float* errors, int rows,
                        const PassOn& on) const {
    FloatWindows job = windows_of_quads(taps_, rows, t.quads());
    job.x = errors;
    job.w = on.weights;
    job.w_step = on.step;
    job.initial = on.initial;
    job.outputs = s.layer.channels;
    job.y = errors_.at(t.group, t.quad);
    job.y_output = kQuad;
    job.y_step = errors_.quad_step;
    machine_.kernels.windows_f32(job);
}

}  // namespace zo
