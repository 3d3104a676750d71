#include "float_shared.hpp"

#include <algorithm>
#include <limits>

#include "parallel.hpp"

namespace zo {
namespace {

constexpr int kQuad = 4 * kGroup;  // numbers
constexpr int kTile = 1 << 16;     // numbers of a tile's inputs, which are to stay in a cache
constexpr int kQuadsOfATile = 16;  // at most, and a multiple of those of any tile
constexpr int kStrips = 8;         // of a cloud, for the threads to share

int ceil_divide(int a, int b) { return (a + b - 1) / b; }

int tile_quads(const Layer& l) {
    int quads = kQuadsOfATile;
    while (quads > 1 && quads * l.channels * kQuad > kTile) quads /= 2;
    return quads;
}

}  // namespace

int SharedLayers::count(std::span<const Layer> layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const Layer& l = layers[i];
        if (l.fan_in() != l.channels || l.rows() > 1 || l.columns() < 2) return 0;
        if (l.pools()) return l.pool_width == l.columns() ? int(i) + 1 : 0;
    }
    return 0;
}

SharedLayers::SharedLayers(std::span<const Layer> layers, const Machine& machine, Arena& arena)
    : machine_(machine),
      points_(layers.front().columns()),
      quads_(ceil_divide(points_, 4)),
      strip_(kQuadsOfATile * ceil_divide(quads_, kStrips * kQuadsOfATile)),
      input_{{}, layers.front().channels, 1, points_, 0, 4 * quads_ - points_} {
    const int groups = machine.capacity / kGroup;
    int most_channels = 0, most_outputs = 0;
    std::size_t inputs = 0, moments = 0;
    for (const Layer& l : layers) {
        Stage& s = stages_.emplace_back(l, tile_quads(l));
        most_channels = std::max(most_channels, l.channels);
        inputs = std::max(inputs, std::size_t(s.tile) * l.channels * kQuad);
        if (&l != &layers.back()) most_outputs = std::max(most_outputs, l.outputs);
        arena.reserve(s.affines, l.outputs);
        if (!l.normed) continue;
        s.norm = std::make_unique<FloatNorm>(l, machine);
        s.norm->reserve(arena);
        moments = std::max(moments, std::size_t(groups) * ceil_divide(quads_, s.tile) * l.outputs);
    }
    std::vector<Tap> taps;
    for (int c = 0; c < most_channels; ++c) taps.push_back({c * kQuad, c});
    arena.keep(taps_, std::move(taps));
    input_.reserve(arena, groups);
    sums_.quad_step = most_outputs * kQuad;
    sums_.quads = quads_;
    arena.reserve(sums_.values, std::size_t(groups) * quads_ * sums_.quad_step);
    arena.reserve(scratch_, machine.threads * (inputs + kOutputsOfAJob * kQuadsOfATile * kQuad));
    arena.reserve(moments_, moments);
    arena.reserve(greatest_, std::size_t(machine.capacity) * kStrips * layers.back().outputs);
}

void SharedLayers::prepare() {
    for (Stage& s : stages_) {
        std::ranges::fill(s.affines, Affine{1, 0});
        if (s.norm) s.norm->prepare();
    }
}

std::vector<std::span<float>> SharedLayers::statistics() {
    std::vector<std::span<float>> all;
    for (Stage& s : stages_)
        if (s.norm) all.push_back(s.norm->running());
    return all;
}

void SharedLayers::forward(const float* parameters, int batch, Pass pass, const FloatMap& out) {
    batch_ = batch;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
        Stage& s = stages_[i];
        const float* const scales = parameters + s.layer.scales();
        run(i, parameters, pass);
        if (s.norm) normalise(s, scales, pass);
        if (i + 1 == stages_.size()) pool(s, s.norm ? scales : nullptr, out);
        parameters += s.layer.parameters();
    }
}

SharedLayers::Tile SharedLayers::tile(const Stage& s, long group, int quad) const {
    const int quads = std::min(s.tile, quads_ - quad);
    return {group, quad, quads, std::min(kGroup, batch_ - int(group) * kGroup),
            std::min(4 * quads, points_ - 4 * quad)};
}

/// The sums of a layer, and what is to be known of them.
void SharedLayers::run(std::size_t number, const float* weights, Pass pass) {
    const Stage& s = stages_[number];
    const Layer& l = s.layer;
    const bool last = number + 1 == stages_.size(), count = s.norm && pass != Pass::kEvaluation;
    const int strips = ceil_divide(quads_, strip_), tiles = ceil_divide(quads_, s.tile);
    parallel(machine_.threads, long(groups()) * strips, [&](long job) {
        float* const inputs = scratch_.data() + worker() * (scratch_.size() / machine_.threads);
        float* const rows = inputs + std::size_t(s.tile) * l.channels * kQuad;
        float* const greatest = greatest_.data() + job * l.outputs * kGroup;
        if (last)
            std::fill_n(greatest, l.outputs * kGroup, -std::numeric_limits<float>::infinity());
        const int begin = int(job % strips) * strip_, end = std::min(begin + strip_, quads_);
        for (int quad = begin; quad < end; quad += s.tile) {
            const Tile t = tile(s, job / strips, quad);
            gather(number, t, inputs);
            FloatWindows windows{};
            windows.x = inputs;
            windows.windows = 4;
            for (int p = 0; p < 4; ++p) windows.window[p] = windows.y_window[p] = p * kGroup;
            windows.x_step = l.channels * kQuad;
            windows.blocks = t.quads;
            windows.taps = taps_.data();
            windows.tap_count = l.channels;
            windows.w_step = l.channels;
            windows.y_output = last ? t.quads * kQuad : kQuad;
            windows.y_step = last ? kQuad : sums_.quad_step;
            for (int first = 0; first < l.outputs; first += kOutputsOfAJob) {
                windows.outputs = std::min(kOutputsOfAJob, l.outputs - first);
                windows.w = weights + std::size_t(first) * l.channels;
                windows.initial = l.bias ? weights + l.weights() + first : nullptr;
                windows.y = last ? rows : sums_.at(t.group, quad) + first * kQuad;
                machine_.kernels.windows_f32(windows);
                const FloatRows found{windows.y, windows.y_output, windows.y_step, windows.outputs,
                                      t.places};
                const std::ptrdiff_t step = groups() * tiles;
                if (count)
                    machine_.kernels.row_moments_f32(
                        found, t.samples,
                        moments_.data() + first * step + t.group * tiles + quad / s.tile, step);
                if (last)
                    machine_.kernels.row_maxima_f32(found,
                                                    s.norm ? weights + l.scales() + first : nullptr,
                                                    greatest + first * kGroup);
            }
        }
    });
}

/// What a layer reads of a tile: the cloud, or what the norm and the ReLU make of sums.
void SharedLayers::gather(std::size_t number, const Tile& t, float* y) const {
    FloatGather job{};
    job.channels = stages_[number].layer.channels;
    job.quads = t.quads;
    job.y = y;
    if (number == 0) {
        job.x = input_.at(t.group, 0, 0, 4 * t.quad);
        job.x_quad = kQuad;
        job.x_channel = input_.channel();
    } else {
        const Stage& before = stages_[number - 1];
        job.x = sums_.at(t.group, t.quad);
        job.x_quad = sums_.quad_step;
        job.x_channel = kQuad;
        job.affines = before.affines.data();
        job.rectified = before.layer.rectified;
    }
    machine_.kernels.gather_f32(job);
}

void SharedLayers::normalise(Stage& s, const float* scales, Pass pass) {
    parallel(machine_.threads, s.layer.outputs, [&](long o) {
        s.affines[o] = pass == Pass::kEvaluation
                           ? s.norm->by_running(int(o), scales)
                           : s.norm->by_batch(int(o), moments(s, int(o)), scales);
    });
}

/// Those of a channel from those of its tiles (Chan, Golub and LeVeque 1979).
ChannelMoments SharedLayers::moments(const Stage& s, int channel) const {
    const int tiles = ceil_divide(quads_, s.tile);
    const Moments* const first = moments_.data() + std::ptrdiff_t(channel) * groups() * tiles;
    const auto each = [&](const auto& visit) {
        for (int g = 0; g < groups(); ++g)
            for (int n = 0; n < tiles; ++n) {
                const Tile t = tile(s, g, n * s.tile);
                visit(first[g * tiles + n], double(t.places) * t.samples);
            }
    };
    ChannelMoments all{0, 0, double(batch_) * points_};
    each([&](const Moments& m, double) { all.mean += m.sum / all.count; });
    each([&](const Moments& m, double count) {
        const double distance = m.sum / count - all.mean;
        all.squares += m.squares + count * distance * distance;
    });
    return all;
}

/// The maximum over points, behind the norm and the ReLU.
void SharedLayers::pool(const Stage& s, const float* scales, const FloatMap& out) const {
    const int outputs = s.layer.outputs, strips = ceil_divide(quads_, strip_);
    parallel(machine_.threads, long(groups()) * outputs, [&](long number) {
        const long g = number / outputs;
        const int o = int(number % outputs);
        const float sign = scales && scales[o] < 0 ? -1.0f : 1.0f;
        for (int lane = 0; lane < kGroup; ++lane) {
            float best = -std::numeric_limits<float>::infinity();
            for (int strip = 0; strip < strips; ++strip) {
                const float next = greatest_[((g * strips + strip) * outputs + o) * kGroup + lane];
                best = best > next ? best : next;  // in this order NaN stays NaN
            }
            const float y = sign * best * s.affines[o].factor + s.affines[o].summand;
            out.at(g, o, 0, 0)[lane] = s.layer.rectified && y < 0 ? 0 : y;
        }
    });
}

}  // namespace zo
