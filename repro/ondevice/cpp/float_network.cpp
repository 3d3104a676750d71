#include "float_network.hpp"

#include <algorithm>
#include <stdexcept>

#include "finite.hpp"
#include "parallel.hpp"

namespace zo {
namespace {

/// Offsets of the weights of one output in a map.
std::vector<std::int32_t> tap_places(const Layer& l, const FloatMap& map) {
    std::vector<std::int32_t> taps;
    for (int c = 0; c < l.channels; ++c)
        for (int y = 0; y < l.kernel_height; ++y)
            for (int x = 0; x < l.kernel_width; ++x)
                taps.push_back(std::int32_t(c * map.channel() + y * map.row() + x * kGroup));
    return taps;
}

/// Whether ReLU and pooling are done with the sums, if nobody needs to know the maxima's places.
bool float_fuses(const Layer& l) {
    return !l.normed && (!l.pools() || (!l.fully_connected() && l.pools_by_two()));
}

}  // namespace

FloatNetwork::Stage::Stage(const Layer& l, const Machine& machine, bool in_tail, bool passes_error,
                           Arena& arena)
    : input{{}, l.channels, l.height, l.width, l.padding},
      in_tail(in_tail),
      fused(!in_tail && float_fuses(l)),
      convolution(l, input, fused && l.pools(), machine, arena),
      sums{{}, l.outputs, l.rows(), l.columns(), 0} {
    if (l.normed) norm = std::make_unique<FloatNorm>(convolution.layer, machine);
    if (!in_tail) return;
    pooled_error = {{}, l.outputs, l.pooled_rows(), l.pooled_columns(), 0};
    error = {{}, l.outputs, l.rows(), l.columns(), l.error_padding()};
    if (passes_error)
        backward = std::make_unique<FloatConvolution>(transposed(l), error, false, machine, arena);
}

FloatNetwork::FloatNetwork(std::vector<Layer> layers, int tail, Machine machine)
    : layers_(std::move(layers)), tail_(tail), machine_(machine) {
    zo::check(layers_);
    zo::check(machine_, kGroup);
    const int count = int(layers_.size()), all_groups = machine_.capacity / kGroup;
    if (tail < 0 || tail > count)
        throw std::invalid_argument("tail " + std::to_string(tail) + ": must be from 0 to " +
                                    std::to_string(count));
    for (int i = 0; i < count; ++i) offsets_.push_back(zo::parameters(std::span(layers_).first(i)));
    mlp_count_ = PointwiseMlp::count(layers_);
    if (mlp_count_) mlp_.emplace(std::span(layers_).first(mlp_count_), tail, machine_, arena_);
    if (tail < mlp_count_) mlp_gradient_.emplace(*mlp_, tail, machine_, arena_);
    std::size_t sums = 0;
    for (int i = mlp_count_; i < count; ++i) {
        const Layer& l = layers_[i];
        Stage& s = stages_.emplace_back(l, machine_, i >= tail, i > tail, arena_);
        s.input.reserve(arena_, all_groups);
        if (s.norm) s.norm->reserve(arena_);
        if (s.norm && s.in_tail)
            s.sums.reserve(arena_, all_groups);
        else if (!s.fused)
            sums = std::max(sums, std::size_t(l.outputs) * l.rows() * l.columns());
        if (!s.in_tail) continue;
        arena_.keep(s.taps, tap_places(l, s.input));
        if (l.rectified || l.pools())
            arena_.reserve(s.choices, std::size_t(l.features()) * machine_.capacity);
        s.pooled_error.reserve(arena_, all_groups);
        s.error.reserve(arena_, all_groups);
        if (s.backward) arena_.reserve(s.turned, l.weights());
    }
    offsets_.push_back(zo::parameters(layers_));
    output_ = {{}, classes(), 1, 1, 0};
    output_.reserve(arena_, all_groups);
    arena_.reserve(parameters_, offsets_.back());
    arena_.reserve(gradient_, offsets_.back() - offsets_[tail]);
    arena_.reserve(logits_, std::size_t(machine_.capacity) * classes());
    arena_.reserve(sums_, sums * machine_.capacity);
}

void FloatNetwork::allocate() {
    arena_.allocate();
    if (mlp_) mlp_->prepare();
    for (Stage& s : stages_)
        if (s.norm) s.norm->prepare();
}

std::vector<std::span<float>> FloatNetwork::statistics() {
    std::vector<std::span<float>> all;
    if (mlp_) all = mlp_->statistics();
    for (Stage& s : stages_)
        if (s.norm) all.push_back(s.norm->running());
    return all;
}

void FloatNetwork::check_training(int batch) const {
    for (const Layer& l : layers_)
        if (l.normed && !l.norm_frozen && std::size_t(batch) * l.rows() * l.columns() < 2)
            throw std::invalid_argument("layer " + l.name +
                                        ": batch norm of one value for each channel, which has no "
                                        "variance: give two samples or more");
}

std::size_t FloatNetwork::inputs() const {
    const Layer& l = layers_.front();
    return std::size_t(l.channels) * l.height * l.width;
}

void FloatNetwork::read(const float* inputs, int batch) {
    batch_ = batch;
    const FloatMap& map = mlp_ ? mlp_->input() : stages_.front().input;
    const std::size_t features = this->inputs();
    parallel(machine_.threads, groups(), [&](long g) {
        const int samples = std::min(kGroup, batch - int(g) * kGroup);
        const float* from = inputs + g * kGroup * features;
        for (int c = 0; c < map.channels; ++c)
            for (int y = 0; y < map.height; ++y, from += map.width)
                machine_.kernels.transpose_f32(from, std::ptrdiff_t(features), samples, map.width,
                                               map.at(g, c, y, 0), kGroup);
    });
}

FloatMap FloatNetwork::sums(const Stage& s) const {
    FloatMap map = s.sums;
    if (map.values.empty()) map.values = sums_;
    return map;
}

FloatMap FloatNetwork::output(const Layer& l, int next) {
    const bool last = next == int(layers_.size());
    const FloatMap& map = last ? output_ : stage(next).input;
    return last || layers_[next].fully_connected()
               ? map.reshaped(l.outputs, l.pooled_rows(), l.pooled_columns())
               : map;
}

std::span<const float> FloatNetwork::forward(Pass pass) {
    if (mlp_)
        mlp_->forward(parameters_.data(), batch_, pass,
                      output(layers_[mlp_count_ - 1], mlp_count_));
    for (int i = mlp_count_; i < int(layers_.size()); ++i) {
        Stage& s = stage(i);
        const Layer& l = layers_[i];
        const FloatMap out = output(l, i + 1);
        const float* const weights = parameters_.data() + offsets_[i];
        const float* const bias = l.bias ? weights + l.weights() : nullptr;
        if (s.fused) {
            s.convolution.run(s.input, groups(), weights, bias, l.rectified, out);
        } else {
            s.convolution.run(s.input, groups(), weights, bias, false, sums(s));
            pool(s, weights + l.scales(), out, pass);
        }
    }
    for (int b = 0; b < batch_; ++b)
        for (int c = 0; c < classes(); ++c)
            logits_[std::size_t(b) * classes() + c] = output_.at(b / kGroup, c, 0, 0)[b % kGroup];
    return logits_.first(std::size_t(batch_) * classes());
}

/// Batch norm, ReLU and pooling; `scales` and shifts are used if there is a norm.
void FloatNetwork::pool(Stage& s, const float* scales, const FloatMap& out, Pass pass) {
    const Layer& l = s.convolution.layer;
    const FloatMap sums = this->sums(s);
    const std::size_t places = std::size_t(l.pooled_rows()) * l.pooled_columns();
    parallel(machine_.threads, l.outputs, [&](long o) {
        FloatPool job{};
        job.rows = l.rows();
        job.columns = l.columns();
        job.pool_height = l.pool_height;
        job.pool_width = l.pool_width;
        job.rectified = l.rectified;
        job.y_row = out.row();
        job.y_column = job.choice_step = kGroup;
        if (s.norm) {
            const Affine affine =
                s.norm->uses_batch(pass)
                    ? s.norm->by_batch(int(o), s.norm->moments(int(o), sums, batch_), scales)
                    : s.norm->by_running(int(o), scales);
            job.affine = true;
            job.factor = affine.factor;
            job.summand = affine.summand;
        }
        for (int g = 0; g < groups(); ++g) {
            job.x = sums.at(g, int(o), 0, 0);
            job.y = out.at(g, int(o), 0, 0);
            if (pass == Pass::kRecorded && !s.choices.empty())
                job.choices = s.choices.data() + (g * l.outputs + o) * places * kGroup;
            machine_.kernels.pool_f32(job);
        }
    });
}

void FloatNetwork::backward(const float* error, float factor) {
    for (int g = 0; g < groups(); ++g)
        for (int c = 0; c < classes(); ++c)
            for (int i = 0; i < kGroup; ++i) {
                const int b = g * kGroup + i;
                output_error(int(layers_.size()) - 1).at(g, c, 0, 0)[i] =
                    b < batch_ ? error[std::size_t(b) * classes() + c] : 0;
            }
    for (int i = int(layers_.size()) - 1; i >= std::max(tail_, mlp_count_); --i) {
        Stage& s = stage(i);
        float* const gradients = gradient_.data() + offsets_[i] - offsets_[tail_];
        const std::size_t scales = layers_[i].scales();
        spread_error(s);
        if (s.norm)
            differentiate_norm(s, parameters_.data() + offsets_[i] + scales, gradients + scales,
                               factor);
        gradient(s, gradients, factor);
        if (i > tail_) pass_error_on(s, parameters_.data() + offsets_[i], output_error(i - 1));
    }
    if (mlp_gradient_) mlp_gradient_->add(parameters_.data(), factor, gradient_.data());
}

const FloatMap& FloatNetwork::output_error(int layer) {
    return layer < mlp_count_ ? mlp_gradient_->error() : stage(layer).pooled_error;
}

/// From the error of the output to that of the sums: each goes to its window's first maximum.
void FloatNetwork::spread_error(Stage& s) {
    const Layer& l = s.convolution.layer;
    const std::size_t places = std::size_t(l.pooled_rows()) * l.pooled_columns();
    const int rows = l.pooled_rows() * l.pool_height, columns = l.pooled_columns() * l.pool_width;
    parallel(machine_.threads, long(groups()) * l.outputs, [&](long number) {
        const long g = number / l.outputs;
        const int o = int(number % l.outputs);
        // outside the windows, where a batch norm has left its own error in the last step
        for (int y = 0; s.norm && y < l.rows(); ++y)
            for (int x = y < rows ? columns : 0; x < l.columns(); ++x)
                std::fill_n(s.error.at(g, o, y, x), kGroup, 0.0f);
        for (std::size_t place = 0; place < places; ++place) {
            const int py = int(place) / l.pooled_columns(), px = int(place) % l.pooled_columns();
            const float* const from = s.pooled_error.at(g, o, py, px);
            const std::uint16_t* const choice =
                s.choices.empty() ? nullptr : s.choices.data() + (number * places + place) * kGroup;
            for (int n = 0; n < l.pool_height * l.pool_width; ++n) {
                float* const to = s.error.at(g, o, py * l.pool_height + n / l.pool_width,
                                             px * l.pool_width + n % l.pool_width);
                for (int b = 0; b < kGroup; ++b) to[b] = !choice || choice[b] == n ? from[b] : 0;
            }
        }
    });
}

/// From the error of a batch norm's output to that of the sums.
void FloatNetwork::differentiate_norm(Stage& s, const float* scales, float* gradient,
                                      float factor) {
    const FloatMap sums = this->sums(s);
    parallel(machine_.threads, s.convolution.layer.outputs, [&](long o) {
        s.norm->backward(int(o), sums, s.error, batch_, scales, factor, gradient);
    });
}

void FloatNetwork::gradient(Stage& s, float* gradient, float factor) {
    const Layer& l = s.convolution.layer;
    if (l.fully_connected())
        multiply_rows(s, gradient, factor);
    else
        multiply_windows(s, gradient, factor);
    if (l.bias) sum_errors(s, gradient + l.weights(), factor);
}

/// The gradient of a fully connected layer.
void FloatNetwork::multiply_rows(const Stage& s, float* sums, float factor) {
    const Layer& l = s.convolution.layer;
    constexpr int kTaps = 16;  // whole vectors
    const int threads = sharing(machine_.threads, l.weights() * batch_ / 16);
    parallel(threads, (l.fan_in() + kTaps - 1) / kTaps, [&](long block) {
        const int first = int(block) * kTaps;
        FloatOuter job{};
        job.e = s.error.values.data();
        job.e_output = s.error.channel();
        job.e_chunk = s.error.group();
        job.outputs = l.outputs;
        job.x = s.input.values.data();
        job.x_chunk = s.input.group();
        job.taps = s.taps.data() + first;
        job.tap_count = std::min(kTaps, l.fan_in() - first);
        job.chunks = groups();
        job.sums = sums + first;
        job.sums_output = l.fan_in();
        job.factor = factor;
        machine_.kernels.outer_f32(job);
    });
}

/// The gradient of a convolution.
void FloatNetwork::multiply_windows(const Stage& s, float* sums, float factor) {
    const Layer& l = s.convolution.layer;
    constexpr int kOutputs = 8;
    const int blocks = (l.outputs + kOutputs - 1) / kOutputs;
    parallel(machine_.threads, blocks, [&](long block) {
        const int first = int(block) * kOutputs;
        FloatProducts job{};
        job.outputs = std::min(kOutputs, l.outputs - first);
        job.e = s.error.at(0, first, 0, 0);
        job.e_output = s.error.channel();
        job.e_chunk = s.error.group();
        job.e_row = s.error.row();
        job.x = s.input.values.data();
        job.x_chunk = s.input.group();
        job.x_row = s.input.row();
        job.e_column = job.x_column = kGroup;
        job.taps = s.taps.data();
        job.tap_count = l.fan_in();
        job.chunks = groups();
        job.rows = l.rows();
        job.sums = sums + std::size_t(first) * l.fan_in();
        job.sums_output = l.fan_in();
        job.factor = factor;
        constexpr int kColumns = 64;  // of long rows, so that they are in a cache for all weights
        for (int c = 0; c < l.columns(); c += kColumns) {
            job.columns = std::min(kColumns, l.columns() - c);
            machine_.kernels.products_f32(job);
            job.e += kColumns * job.e_column;
            job.x += kColumns * job.x_column;
        }
    });
}

/// The gradient of the biases.
void FloatNetwork::sum_errors(const Stage& s, float* sums, float factor) {
    const Layer& l = s.convolution.layer;
    const std::size_t places = std::size_t(l.rows()) * l.columns();
    parallel(sharing(machine_.threads, places * l.outputs * groups()), l.outputs, [&](long o) {
        float lanes[kGroup] = {}, all = 0;
        for (int g = 0; g < groups(); ++g)
            for (int y = 0; y < l.rows(); ++y)
                for (int x = 0; x < l.columns(); ++x)
                    for (int b = 0; b < kGroup; ++b) lanes[b] += s.error.at(g, int(o), y, x)[b];
        for (float one : lanes) all += one;
        sums[o] += factor * all;
    });
}

void FloatNetwork::pass_error_on(Stage& s, const float* weights, const FloatMap& to) {
    turn(s.convolution.layer, weights, s.turned.data());
    const Layer& t = s.backward->layer;
    s.backward->run(s.error, groups(), s.turned.data(), nullptr, false,
                    to.reshaped(t.outputs, t.rows(), t.columns()));
}

void FloatNetwork::descend(float rate) {
    float* const w = parameters_.data() + offsets_[tail_];
    for (std::size_t i = 0; i < gradient_.size(); ++i) w[i] -= rate * gradient_[i];
    forget();
}

bool FloatNetwork::can_descend(float rate) const {
    const float* const w = parameters_.data() + offsets_[tail_];
    return all_finite(gradient_.size(), [&](std::size_t i) { return w[i] - rate * gradient_[i]; });
}

void FloatNetwork::forget() { std::ranges::fill(gradient_, 0.0f); }

}  // namespace zo
