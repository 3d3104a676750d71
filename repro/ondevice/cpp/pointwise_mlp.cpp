#include "pointwise_mlp.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel.hpp"

namespace zo {
namespace {

constexpr int kTile = 1 << 16;     // numbers of a tile, which are to stay in a cache
constexpr int kQuadsOfATile = 16;  // at most, and a multiple of those of any tile
constexpr int kStrips = 8;         // of a cloud at most, for the threads to share
constexpr float kLeast = -std::numeric_limits<float>::infinity();

int ceil_divide(int a, int b) { return (a + b - 1) / b; }

int tile_quads(int channels) {
    int quads = kQuadsOfATile;
    while (quads > 1 && quads * channels * kQuad > kTile) quads /= 2;
    return quads;
}

}  // namespace

std::vector<Tap> taps_of_quads(int channels) {
    std::vector<Tap> taps;
    for (int c = 0; c < channels; ++c) taps.push_back({c * kQuad, c});
    return taps;
}

FloatWindows windows_of_quads(std::span<const Tap> taps, int channels, int quads) {
    FloatWindows job{};
    job.windows = 4;
    for (int p = 0; p < 4; ++p) job.window[p] = job.y_window[p] = p * kGroup;
    job.x_step = channels * kQuad;
    job.blocks = quads;
    job.taps = taps.data();
    job.tap_count = job.w_step = channels;
    return job;
}

int PointwiseMlp::count(std::span<const Layer> layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const Layer& l = layers[i];
        if (l.fan_in() != l.channels || l.rows() > 1 || l.columns() < 2) return 0;
        if (l.pools()) return l.pool_width == l.columns() ? int(i) + 1 : 0;
    }
    return 0;
}

PointwiseMlp::PointwiseMlp(std::span<const Layer> layers, int tail, const Machine& machine,
                           Arena& arena)
    : machine_(machine),
      points_(layers.front().columns()),
      quads_(ceil_divide(points_, 4)),
      strip_(kQuadsOfATile * ceil_divide(quads_, kStrips * kQuadsOfATile)),
      strips_(ceil_divide(quads_, strip_)),
      input_{{}, layers.front().channels, 1, points_, 0, 4 * quads_ - points_} {
    const int groups = machine.capacity / kGroup, count = int(layers.size());
    int channels = 0;
    std::ptrdiff_t step = 0;  // of the sums before the tail
    std::size_t offset = 0, inputs = 0, moments = 0;
    for (int i = 0; i < count; ++i) {
        const Layer& l = layers[i];
        const bool last = i + 1 == count;
        const int tile = tile_quads(last ? l.channels : std::max(l.channels, l.outputs));
        PointwiseLayer& s = layers_.emplace_back(l, i, offset, tile, ceil_divide(quads_, tile));
        offset += l.parameters();
        channels = std::max(channels, l.channels);
        inputs = std::max(inputs, std::size_t(tile) * l.channels * kQuad);
        arena.reserve(s.affines, l.outputs);
        if (l.normed) {
            s.norm = std::make_unique<FloatNorm>(l, machine);
            s.norm->reserve(arena);
            moments = std::max(moments, std::size_t(groups) * s.tiles * l.outputs);
        }
        if (last) continue;
        s.sums.quads = quads_;
        s.sums.quad_step = l.outputs * kQuad;
        if (i >= tail)
            arena.reserve(s.sums.values, std::size_t(groups) * quads_ * s.sums.quad_step);
        else
            step = std::max(step, s.sums.quad_step);
    }
    // Before the tail a tile's sums take the place of its inputs, whose step they must have.
    for (int i = 0; i + 1 < count && i < tail; ++i) layers_[i].sums.quad_step = step;
    arena.reserve(sums_, std::size_t(groups) * quads_ * step);
    arena.keep(taps_, taps_of_quads(channels));
    input_.reserve(arena, groups);
    arena.reserve(scratch_, machine.threads * (inputs + kOutputsOfAJob * kQuadsOfATile * kQuad));
    arena.reserve(moments_, moments);
    const std::size_t maxima = std::size_t(machine.capacity) * strips_ * layers.back().outputs;
    arena.reserve(extremes_, maxima);
    if (tail >= count) return;
    const PointwiseLayer& last = layers_.back();
    arena.reserve(choices_, maxima);
    arena.reserve(input_moments_, std::size_t(groups) * last.tiles * last.layer.channels);
}

void PointwiseMlp::prepare() {
    for (PointwiseLayer& s : layers_) {
        std::ranges::fill(s.affines, Affine{1, 0});
        if (s.norm) s.norm->prepare();
        if (s.sums.values.empty()) s.sums.values = sums_;
    }
}

std::vector<std::span<float>> PointwiseMlp::statistics() {
    std::vector<std::span<float>> all;
    for (PointwiseLayer& s : layers_)
        if (s.norm) all.push_back(s.norm->running());
    return all;
}

void PointwiseMlp::forward(const float* parameters, int batch, Pass pass, const FloatMap& out) {
    batch_ = batch;
    for (PointwiseLayer& s : layers_) {
        const float* const weights = parameters + s.offset;
        run(s, weights, pass);
        if (s.norm) normalise(s, weights + s.layer.scales(), pass);
    }
    const PointwiseLayer& last = layers_.back();
    pool(last.norm ? parameters + last.offset + last.layer.scales() : nullptr, out);
}

/// Tiles are counted cloud by cloud.
Tile PointwiseMlp::tile(const PointwiseLayer& s, int number) const {
    const int group = number / s.tiles, quad = number % s.tiles * s.tile;
    return {group, quad, std::min(4 * s.tile, points_ - 4 * quad),
            std::min(kGroup, batch_ - group * kGroup)};
}

/// The sums of a layer, and what is to be known of them.
void PointwiseMlp::run(const PointwiseLayer& s, const float* weights, Pass pass) {
    parallel(machine_.threads, long(groups()) * strips_, [&](long strip) {
        if (&s == &layers_.back())
            std::fill_n(extremes_.data() + extreme_of(strip, 0), extreme_of(1, 0), kLeast);
        const int first = int(strip % strips_) * (strip_ / s.tile),
                  end = std::min(first + strip_ / s.tile, s.tiles);
        for (int n = first; n < end; ++n)
            run_tile(s, int(strip / strips_) * s.tiles + n, weights, pass, strip);
    });
}

void PointwiseMlp::run_tile(const PointwiseLayer& s, int number, const float* weights, Pass pass,
                            std::ptrdiff_t strip) {
    const Layer& l = s.layer;
    const Tile t = tile(s, number);
    const bool last = &s == &layers_.back();
    float* const inputs = scratch_.data() + worker() * (scratch_.size() / machine_.threads);
    gather(s, t, nullptr, inputs);
    const std::ptrdiff_t tiles = groups() * s.tiles;
    if (last && pass == Pass::kRecorded && !input_moments_.empty())
        machine_.kernels.row_moments_f32({inputs, kQuad, l.channels * kQuad, l.channels, t.places},
                                         t.samples, input_moments_.data() + number, tiles);
    FloatWindows job = windows_of_quads(taps_, l.channels, t.quads());
    job.x = inputs;
    job.y_output = last ? t.quads() * kQuad : kQuad;
    job.y_step = last ? kQuad : s.sums.quad_step;
    for (int first = 0; first < l.outputs; first += kOutputsOfAJob) {
        job.outputs = std::min(kOutputsOfAJob, l.outputs - first);
        job.w = weights + std::size_t(first) * l.channels;
        job.initial = l.bias ? weights + l.weights() + first : nullptr;
        job.y = last ? inputs + s.tile * job.x_step : s.sums.at(t.group, t.quad) + first * kQuad;
        machine_.kernels.windows_f32(job);
        const FloatRows rows{job.y, job.y_output, job.y_step, job.outputs, t.places};
        const std::size_t at = extreme_of(strip, first);
        if (s.norm && s.norm->uses_batch(pass))
            machine_.kernels.row_moments_f32(rows, t.samples,
                                             moments_.data() + first * tiles + number, tiles);
        if (last)
            machine_.kernels.row_maxima_f32(
                rows, s.norm ? weights + l.scales() + first : nullptr, extremes_.data() + at,
                choices_.empty() ? nullptr : choices_.data() + at, 4 * t.quad);
    }
}

void PointwiseMlp::gather(const PointwiseLayer& s, const Tile& t, const float* centers,
                          float* y) const {
    FloatGather job{};
    job.channels = s.layer.channels;
    job.places = t.places;
    job.samples = t.samples;
    job.centers = centers;
    job.y = y;
    if (s.index == 0) {
        job.x = input_.at(t.group, 0, 0, 4 * t.quad);
        job.x_quad = kQuad;
        job.x_channel = input_.channel();
    } else {
        const PointwiseLayer& before = layers_[s.index - 1];
        job.x = before.sums.at(t.group, t.quad);
        job.x_quad = before.sums.quad_step;
        job.x_channel = kQuad;
        job.affines = before.affines.data();
        job.rectified = before.layer.rectified;
    }
    machine_.kernels.gather_f32(job);
}

void PointwiseMlp::read_point(const PointwiseLayer& s, int sample, int place, int first, int count,
                              float* y) const {
    const int group = sample / kGroup, lane = sample % kGroup;
    if (s.index == 0) {
        for (int c = 0; c < count; ++c) y[c] = input_.at(group, first + c, 0, place)[lane];
        return;
    }
    const PointwiseLayer& before = layers_[s.index - 1];
    const float* const x =
        before.sums.at(group, place / 4) + first * kQuad + place % 4 * kGroup + lane;
    for (int c = 0; c < count; ++c) {
        const Affine affine = before.affines[first + c];
        const float value = x[c * kQuad] * affine.factor + affine.summand;
        y[c] = before.layer.rectified ? std::max(0.0f, value) : value;
    }
}

void PointwiseMlp::normalise(PointwiseLayer& s, const float* scales, Pass pass) {
    parallel(machine_.threads, s.layer.outputs, [&](long o) {
        s.affines[o] = s.norm->uses_batch(pass)
                           ? s.norm->by_batch(int(o), moments(s, int(o)), scales)
                           : s.norm->by_running(int(o), scales);
    });
}

/// Those of a channel from those of its tiles (Chan, Golub and LeVeque 1979).
ChannelMoments PointwiseMlp::moments(const PointwiseLayer& s, int channel) const {
    const std::size_t tiles = std::size_t(groups()) * s.tiles;
    const auto of_channel = moments_.subspan(channel * tiles, tiles);
    ChannelMoments all{mean(s, of_channel), 0, double(batch_) * points_};
    for (std::size_t n = 0; n < tiles; ++n) {
        const double distance = of_channel[n].mean - all.mean;
        all.squares += of_channel[n].squares + tile(s, int(n)).count() * distance * distance;
    }
    return all;
}

double PointwiseMlp::mean(const PointwiseLayer& s, std::span<const Moments> tiles) const {
    double sum = 0;
    for (std::size_t n = 0; n < tiles.size(); ++n) sum += tiles[n].mean * tile(s, int(n)).count();
    return sum / (double(batch_) * points_);
}

float PointwiseMlp::input_mean(int channel) const {
    const PointwiseLayer& last = layers_.back();
    const std::size_t tiles = std::size_t(groups()) * last.tiles;
    return float(mean(last, input_moments_.subspan(channel * tiles, tiles)));
}

/// The maximum over points, behind the norm and the ReLU; the first strip gets the cloud's extreme.
void PointwiseMlp::pool(const float* scales, const FloatMap& out) {
    const Layer& l = layers_.back().layer;
    parallel(machine_.threads, long(groups()) * l.outputs, [&](long number) {
        const long g = number / l.outputs;
        const int o = int(number % l.outputs);
        const std::size_t first = extreme_of(g * strips_, o);
        float* const best = extremes_.data() + first;
        for (int strip = 1; strip < strips_; ++strip) {
            const std::size_t at = extreme_of(g * strips_ + strip, o);
            if (!choices_.empty())
                for (int lane = 0; lane < kGroup; ++lane)
                    if (extremes_[at + lane] > best[lane])
                        choices_[first + lane] = choices_[at + lane];
            for (int lane = 0; lane < kGroup; ++lane) {
                const float other = extremes_[at + lane];
                const bool stays = std::isnan(best[lane]) || best[lane] > other;
                best[lane] = stays ? best[lane] : other;  // NaN if one of the two is
            }
        }
        const float sign = scales && scales[o] < 0 ? -1.0f : 1.0f;
        for (int lane = 0; lane < kGroup; ++lane) {
            best[lane] *= sign;
            const float y = normed(o, best[lane]);
            out.at(g, o, 0, 0)[lane] = l.rectified && y < 0 ? 0 : y;
        }
    });
}

float PointwiseMlp::extreme(int sample, int output) const {
    return extremes_[extreme_of(sample / kGroup * strips_, output) + sample % kGroup];
}

int PointwiseMlp::place(int sample, int output) const {
    return choices_[extreme_of(sample / kGroup * strips_, output) + sample % kGroup];
}

float PointwiseMlp::normed(int output, float sum) const {
    const Affine affine = layers_.back().affines[output];
    return sum * affine.factor + affine.summand;
}

}  // namespace zo
