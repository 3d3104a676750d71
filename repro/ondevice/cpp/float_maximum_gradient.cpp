#include "float_maximum_gradient.hpp"

#include <algorithm>

#include "columns.hpp"

namespace zo {
namespace {

constexpr int kOutputBits = 16;

std::vector<Tap> taps_of_rows(int rows, int step) {
    std::vector<Tap> taps;
    for (int i = 0; i < rows; ++i) taps.push_back({i * step, i});
    return taps;
}

/// y += factor x, for at most a vector of numbers.
void add_product(int count, float factor, const float* x, float* y) {
    if (count == kGroup)
        for (int i = 0; i < kGroup; ++i) y[i] += factor * x[i];
    else
        for (int i = 0; i < count; ++i) y[i] += factor * x[i];
}

}  // namespace

Mix GradientJob::mix(int output, double errors, double products, double count) const {
    const Layer& l = layer.layer;
    Mix mix{1, 0, 0};
    if (layer.norm)
        mix = layer.norm->backward(output, errors, products, count, weights + l.scales(), factor,
                                   gradient + l.scales());
    if (l.bias && (!layer.norm || l.norm_frozen))  // the mean of a batch takes any bias off again
        gradient[l.weights() + output] += factor * mix.a * float(errors);
    return mix;
}

MaximumGradient::MaximumGradient(const PointwiseMlp& mlp, int tail, const Machine& machine,
                                 TileGradient& tiles, Arena& arena)
    : mlp_(mlp),
      machine_(machine),
      tiles_(tiles),
      spreads_(mlp.layers().back().norm && !mlp.layers().back().layer.norm_frozen),
      error_{{}, mlp.layers().back().layer.outputs, 1, 1, 0} {
    const PointwiseLayer& s = mlp.layers().back();
    const Layer& l = s.layer;
    const int width = Columns(l.channels).padded();
    error_.reserve(arena, machine.capacity / kGroup);
    arena.reserve(mixes_, l.outputs);
    arena.reserve(slopes_, std::size_t(machine.capacity) * l.outputs);
    arena.reserve(keys_, std::size_t(machine.capacity) * l.outputs);
    arena.reserve(key_counts_, machine.capacity);
    if (!spreads_) return;
    arena.reserve(means_, l.channels);
    arena.reserve(covariance_, std::size_t(l.channels) * width);
    arena.keep(columns_, taps_of_rows(l.channels, width));
    if (s.index == tail) return;
    arena.reserve(weighted_, l.weights());
    arena.reserve(passing_, std::size_t(l.channels) * width);
    arena.reserve(shift_, l.channels);
    arena.keep(rows_, taps_of_rows(l.outputs, l.channels));
}

void MaximumGradient::add(const GradientJob& job) {
    mix(job);
    if (spreads_)
        add_spread(job);
    else if (job.passes_on)
        std::ranges::fill(tiles_.errors().values, 0.0f);
    sort_points();
    add_points(job);
}

/// Finds what the errors of the sums are made of.
void MaximumGradient::mix(const GradientJob& job) {
    const PointwiseLayer& s = job.layer;
    const Layer& l = s.layer;
    const int batch = mlp_.batch();
    parallel(machine_.threads, l.outputs, [&](long o) {
        const float mean = s.norm ? s.norm->means()[o] : 0;
        double errors = 0, products = 0;
        for (int b = 0; b < batch; ++b) {
            const float x = mlp_.extreme(b, int(o));
            const bool open = !l.rectified || mlp_.normed(int(o), x) > 0;
            const float e = open ? error_.at(b / kGroup, int(o), 0, 0)[b % kGroup] : 0;
            slopes_[std::size_t(b) * l.outputs + o] = e;
            errors += e;
            products += double(e) * (x - mean);
        }
        mixes_[o] = job.mix(int(o), errors, products, double(batch) * mlp_.points());
        for (int b = 0; b < batch; ++b) slopes_[std::size_t(b) * l.outputs + o] *= mixes_[o].a;
    });
}

/// What all points have a share in.
void MaximumGradient::add_spread(const GradientJob& job) {
    const PointwiseLayer& s = job.layer;
    const int channels = s.layer.channels;
    for (int c = 0; c < channels; ++c) means_[c] = mlp_.input_mean(c);
    if (job.passes_on) find_passing(job.weights);
    const TileGradient::PassOn on{passing_.data(), shift_.data(), Columns(channels).padded()};
    tiles_.run(s, channels, means_.data(), job.passes_on ? &on : nullptr,
               [](const Tile&, const TileGradient::Scratch& own) { return own.inputs; });
    add_covariance(job);
}

void MaximumGradient::find_passing(const float* weights) {
    const Layer& l = mlp_.layers().back().layer;
    std::ranges::fill(shift_, 0.0f);
    for (int o = 0; o < l.outputs; ++o)
        for (int c = 0; c < l.channels; ++c) {
            const float w = weights[std::size_t(o) * l.channels + c];
            weighted_[std::size_t(c) * l.outputs + o] = mixes_[o].b * w;
            shift_[c] += mixes_[o].c * w;
        }
    FloatWindows job = windows_of_columns(Columns(l.channels), rows_, passing_.data());
    job.x = weights;
    job.w = weighted_.data();
    job.w_step = l.outputs;
    job.outputs = l.channels;
    machine_.kernels.windows_f32(job);
}

void MaximumGradient::add_covariance(const GradientJob& job) {
    const Layer& l = job.layer.layer;
    const Columns columns(l.channels);
    for (int row = 0; row < l.channels; ++row)
        for (int c = 0; c < l.channels; ++c)
            covariance_[std::size_t(row) * columns.padded() + c] =
                tiles_.sum(job.layer, l.channels, row, c);
    const double count = double(mlp_.batch()) * mlp_.points();
    parallel(machine_.threads, jobs_of(l.outputs), [&](long number) {
        const int first = int(number) * kOutputsOfAJob;
        FloatWindows windows = windows_of_columns(columns, columns_, tiles_.scratch().sums);
        windows.x = covariance_.data();
        windows.w = job.weights + std::size_t(first) * l.channels;
        windows.w_step = l.channels;
        windows.outputs = std::min(kOutputsOfAJob, l.outputs - first);
        machine_.kernels.windows_f32(windows);
        for (int o = 0; o < windows.outputs; ++o) {
            const Mix mix = mixes_[first + o];
            const float constant = float(mix.c * count);
            float* const gradient = job.gradient + std::size_t(first + o) * l.channels;
            const float* const products = windows.y + std::size_t(o) * columns.padded();
            for (int c = 0; c < l.channels; ++c)
                gradient[c] += job.factor * (mix.b * products[c] + constant * means_[c]);
        }
    });
}

/// Outputs of a cloud whose maxima are of the same point are next to each other then.
void MaximumGradient::sort_points() {
    const int outputs = mlp_.layers().back().layer.outputs;
    parallel(machine_.threads, mlp_.batch(), [&](long b) {
        const std::size_t first = std::size_t(b) * outputs;
        int count = 0;
        for (int o = 0; o < outputs; ++o)
            if (slopes_[first + o] != 0)
                keys_[first + count++] = std::uint32_t(mlp_.place(int(b), o)) << kOutputBits | o;
        std::ranges::sort(keys_.subspan(first, count));
        key_counts_[b] = count;
    });
}

/// What the points of the maxima add. The jobs are inputs, since all clouds add to all weights.
void MaximumGradient::add_points(const GradientJob& job) {
    const int channels = job.layer.layer.channels;
    parallel(machine_.threads, Columns(channels).vectors, [&](long vector) {
        const int first = int(vector) * kGroup;
        for (int b = 0; b < mlp_.batch(); ++b)
            add_points(job, b, first, std::min(kGroup, channels - first));
    });
}

void MaximumGradient::add_points(const GradientJob& job, int sample, int first, int count) {
    const Layer& l = job.layer.layer;
    const std::size_t row = std::size_t(sample) * l.outputs;
    const auto keys = keys_.subspan(row, key_counts_[sample]);
    for (std::size_t i = 0; i < keys.size();) {
        const int place = int(keys[i] >> kOutputBits);
        float inputs[kGroup] = {}, errors[kGroup] = {};
        mlp_.read_point(job.layer, sample, place, first, count, inputs);
        for (; i < keys.size() && int(keys[i] >> kOutputBits) == place; ++i) {
            const std::size_t o = keys[i] & ((1u << kOutputBits) - 1), at = o * l.channels + first;
            const float slope = slopes_[row + o];
            add_product(count, job.factor * slope, inputs, job.gradient + at);
            add_product(count, slope, job.weights + at, errors);
        }
        if (!job.passes_on) continue;
        float* const to = tiles_.errors().at(sample / kGroup, place / 4) + first * kQuad +
                          place % 4 * kGroup + sample % kGroup;
        for (int c = 0; c < count; ++c) to[c * kQuad] += errors[c];
    }
}

}  // namespace zo
