#include "int_network.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "parallel.hpp"
#include "rounding.hpp"

namespace zo {
namespace {

/// Whether sums are pooled while they are computed: no range is lost if every sum is in a window.
bool fuses(const Layer& l) {
    return !l.fully_connected() && l.pools_by_two();
}

int shift_of(const Range& range) {
    const std::int64_t largest = std::max<std::int64_t>(-std::int64_t(range.least), range.greatest);
    return std::max(magnitude_range(largest) - kMagnitudeBits, 0);
}

}  // namespace

IntNetwork::Stage::Stage(const Layer& layer, bool signed_input, const Machine& machine, bool in_tail,
                         bool passes_error, bool reads_sums)
    : input{{}, layer.channels, layer.height, layer.width, layer.padding, machine.capacity},
      convolution(layer, signed_input, machine),
      in_tail(in_tail),
      reads_sums(reads_sums) {
    if (!in_tail) return;
    pooled_error = {{}, layer.outputs, layer.pooled_rows(), layer.pooled_columns(), 0, machine.capacity};
    error = {{}, layer.outputs, layer.rows(), layer.columns(), layer.error_padding(), machine.capacity};
    if (passes_error) backward = std::make_unique<IntConvolution>(transposed(layer), true, machine);
}

IntNetwork::IntNetwork(std::vector<Layer> layers, std::vector<int> exponents, int tail, Machine machine)
    : layers_(std::move(layers)), exponents_(std::move(exponents)), tail_(tail), machine_(machine) {
    zo::check(layers_);
    zo::check(machine_, kBatchUnit);
    if (exponents_.size() != layers_.size()) throw std::invalid_argument("one exponent for each layer is needed");
    const int count = int(layers_.size());
    if (tail < 0 || tail > count)
        throw std::invalid_argument("tail " + std::to_string(tail) + ": must be from 0 to " + std::to_string(count));
    std::size_t sums = 0, most = 0;
    for (int i = 0; i < count; ++i) {
        const Layer& l = layers_[i];
        if (l.bias) throw std::invalid_argument("layer " + l.name + " has a bias, which NITI's networks have not");
        if (std::size_t(l.fan_in()) > ((std::size_t(1) << 31) - 2) / (128 * 128))
            throw std::invalid_argument("layer " + l.name + ": sums of " + std::to_string(l.fan_in()) +
                                        " products may leave int32, at most 131071 stay in it");
        const bool in_tail = i >= tail, unfused = in_tail || !fuses(l);
        offsets_.push_back(zo::parameters(std::span(layers_).first(i)));
        const bool reads_sums = i > 0 && !in_tail && (fuses(layers_[i - 1]) || !layers_[i - 1].pools());
        stages_.emplace_back(l, i == 0 || !layers_[i - 1].rectified, machine_, in_tail, i > tail, reads_sums);
        Stage& s = stages_.back();
        if (s.input.elements() >= (std::size_t(1) << 31))
            throw std::invalid_argument("layer " + l.name + ": more than 2^31 inputs in a batch of " +
                                        std::to_string(machine_.capacity));
        if (!reads_sums) s.input.reserve(arena_);
        s.convolution.reserve(arena_);
        const std::size_t places = unfused ? std::size_t(l.rows()) * l.columns() : std::size_t(l.pooled_rows()) * l.pooled_columns();
        sums = std::max(sums, l.outputs * places);
        if (!in_tail) continue;
        most = std::max(most, l.weights());
        if (l.rectified || l.pools()) arena_.reserve(s.choices, std::size_t(l.features()) * machine_.capacity);
        arena_.reserve(s.taps, l.fan_in());
        s.pooled_error.reserve(arena_);
        s.error.reserve(arena_);
        if (!s.backward) continue;
        s.backward->reserve(arena_);
        arena_.reserve(s.turned, l.weights());
        const Layer& t = s.backward->layer;
        sums = std::max(sums, std::size_t(t.outputs) * t.rows() * t.columns());
    }
    offsets_.push_back(zo::parameters(layers_));
    output_ = {{}, classes(), 1, 1, 0, machine_.capacity};
    output_.reserve(arena_);
    arena_.reserve(parameters_, offsets_.back());
    arena_.reserve(logits_, std::size_t(machine_.capacity) * classes());
    arena_.reserve(updates_, offsets_.back() - offsets_[tail]);
    arena_.reserve(sums_, sums * machine_.capacity);
    arena_.reserve(gradient_, most);
}

void IntNetwork::allocate() {
    arena_.allocate();
    for (Stage& s : stages_) {
        s.convolution.prepare();
        if (s.backward) s.backward->prepare();
        if (!s.in_tail) continue;
        const Layer& l = s.convolution.layer;
        std::size_t i = 0;
        for (int c = 0; c < l.channels; ++c)
            for (int y = 0; y < l.kernel_height; ++y)
                for (int x = 0; x < l.kernel_width; ++x)
                    s.taps[i++] = std::int32_t(((c * l.padded_height() + y) * l.padded_width() + x) * s.input.batch);
    }
}

std::size_t IntNetwork::inputs() const {
    const Layer& l = layers_.front();
    return std::size_t(l.channels) * l.height * l.width;
}

std::span<const std::int8_t> IntNetwork::weights(int layer) const {
    return parameters_.subspan(offsets_[layer], layers_[layer].weights());
}

void IntNetwork::read(const std::int8_t* inputs, int batch, int exponent) {
    IntMap& map = stages_.front().input;
    const std::size_t features = this->inputs();
    parallel(machine_.threads, groups(batch), [&](long g) {
        const int samples = std::min(kGroup, batch - int(g) * kGroup);
        const std::int8_t* from = inputs + g * kGroup * features;
        for (int c = 0; c < map.channels; ++c)
            for (int y = 0; y < map.height; ++y, from += map.width)
                machine_.kernels.transpose(from, std::ptrdiff_t(features), samples, map.width,
                                           map.at(c, y, 0) + g * kGroup, map.batch);
    });
    stages_.front().convolution.read(map, groups(batch));
    batch_ = batch;
    exponent_ = exponent;
}

IntLogits IntNetwork::forward(bool recorded) {
    const int groups = this->groups(batch_);
    int exponent = exponent_;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
        Stage& s = stages_[i];
        const bool pooled = fuses(layers_[i]) && !(recorded && s.in_tail);
        if (i > 0 && !s.reads_sums) s.convolution.read(s.input, groups);
        s.convolution.take(weights(int(i)));
        const Range range = s.convolution.run(sums_, groups, pooled, false);
        const int shift = shift_of(range);
        // A cast turns 128 into -128, which is no maximum any more.
        if (pooled && shift == 0 && range.greatest > kLargest) s.convolution.run(sums_, groups, pooled, true);
        exponent += exponents_[i] + shift;
        const bool last = i + 1 == stages_.size();
        if (!last && stages_[i + 1].reads_sums) {
            stages_[i + 1].convolution.read(sums_, groups, shift, layers_[i].rectified);
            continue;
        }
        IntMap out = last ? output_ : stages_[i + 1].input;
        if (last || layers_[i + 1].fully_connected())
            out = out.reshaped(layers_[i].outputs, layers_[i].pooled_rows(), layers_[i].pooled_columns());
        narrow(layers_[i], out, groups, shift, pooled, recorded ? s.choices : std::span<std::uint16_t>());
    }
    for (int b = 0; b < batch_; ++b)
        for (int c = 0; c < classes(); ++c) logits_[std::size_t(b) * classes() + c] = output_.at(c, 0, 0)[b];
    return {logits_.data(), batch_, classes(), exponent};
}

void IntNetwork::narrow(const Layer& l, const IntMap& out, int groups, int shift, bool pooled,
                        std::span<std::uint16_t> choices) {
    const int rows = pooled ? l.pooled_rows() : l.rows(), columns = pooled ? l.pooled_columns() : l.columns();
    parallel(machine_.threads, long(groups) * l.outputs, [&](long number) {
        const long g = number / l.outputs, o = number % l.outputs;
        Narrow job{};
        job.x = sums_.data() + number * rows * columns * kGroup;
        job.rows = rows;
        job.columns = columns;
        job.pool_height = pooled ? 1 : l.pool_height;
        job.pool_width = pooled ? 1 : l.pool_width;
        job.shift = shift;
        job.rectified = l.rectified;
        job.y = out.at(int(o), 0, 0) + g * kGroup;
        job.y_row = std::ptrdiff_t(out.padded_width()) * out.batch;
        job.y_column = out.batch;
        if (!choices.empty()) {
            job.choices = choices.data() + o * l.pooled_rows() * l.pooled_columns() * machine_.capacity + g * kGroup;
            job.choice_step = machine_.capacity;
        }
        machine_.kernels.narrow(job);
    });
}

void IntNetwork::backward(const std::int8_t* error, int bits) {
    const int padded = padded_groups() * kGroup, last = int(stages_.size()) - 1;
    IntMap& logits = stages_.back().pooled_error;
    for (int c = 0; c < classes(); ++c)
        for (int b = 0; b < padded; ++b)
            logits.at(c, 0, 0)[b] = b < batch_ ? error[std::size_t(b) * classes() + c] : 0;
    for (int i = last; i >= tail_; --i) {
        Stage& s = stages_[i];
        spread_error(s, padded);
        update(s, i, bits);
        if (i > tail_) pass_error_on(s, i, stages_[i - 1].pooled_error);
    }
}

/// From the error of the output to that of the sums: each goes to its window's first maximum.
void IntNetwork::spread_error(Stage& s, int batch) {
    const Layer& l = s.convolution.layer;
    const std::size_t places = std::size_t(l.pooled_rows()) * l.pooled_columns();
    parallel(machine_.threads, l.outputs, [&](long o) {
        for (std::size_t place = 0; place < places; ++place) {
            const int py = int(place) / l.pooled_columns(), px = int(place) % l.pooled_columns();
            const std::int8_t* const from = s.pooled_error.at(int(o), py, px);
            const std::uint16_t* const choice =
                s.choices.empty() ? nullptr : s.choices.data() + (o * places + place) * machine_.capacity;
            for (int n = 0; n < l.pool_height * l.pool_width; ++n) {
                std::int8_t* const to = s.error.at(int(o), py * l.pool_height + n / l.pool_width,
                                                   px * l.pool_width + n % l.pool_width);
                if (!choice)
                    std::memcpy(to, from, batch);
                else
                    for (int b = 0; b < batch; ++b) to[b] = choice[b] == n ? from[b] : 0;
            }
        }
    });
}

void IntNetwork::update(Stage& s, int layer, int bits) {
    const Layer& l = s.convolution.layer;
    const std::span<std::int64_t> sums = gradient_.first(l.weights());
    std::ranges::fill(sums, 0);
    constexpr int kOutputs = 8;
    const int blocks = (l.outputs + kOutputs - 1) / kOutputs, chunk = machine_.kernels.products_chunk;
    parallel(machine_.threads, blocks, [&](long block) {
        IntProducts job{};
        const int first = int(block) * kOutputs;
        job.outputs = std::min(kOutputs, l.outputs - first);
        job.e = s.error.at(first, 0, 0);
        job.e_output = std::ptrdiff_t(s.error.padded_height()) * s.error.padded_width() * s.error.batch;
        job.e_chunk = job.x_chunk = chunk;
        job.e_column = job.x_column = machine_.capacity;
        job.e_row = std::ptrdiff_t(s.error.padded_width()) * s.error.batch;
        job.x_row = std::ptrdiff_t(s.input.padded_width()) * s.input.batch;
        job.x = s.input.values.data();
        job.taps = s.taps.data();
        job.tap_count = l.fan_in();
        job.sums = sums.data() + std::size_t(first) * l.fan_in();
        job.chunks = (batch_ + chunk - 1) / chunk;
        job.rows = l.rows();
        job.columns = l.columns();
        job.sums_output = l.fan_in();
        job.factor = 1;
        machine_.kernels.products_i8(job);
    });
    round_gradient(sums, bits, updates_.subspan(offsets_[layer] - offsets_[tail_], l.weights()));
}

/// Rounds a layer's gradient to its update.
void IntNetwork::round_gradient(std::span<const std::int64_t> sums, int bits, std::span<std::int8_t> update) {
    const GradientShift shift(machine_.kernels.largest_i64(sums.data(), sums.size()), bits);
    if (shift.vanishes)
        std::ranges::fill(update, 0);
    else if (shift.k >= 1)
        machine_.kernels.round_i64(sums.data(), sums.size(), shift.k, update.data());
    else
        std::ranges::copy(sums, update.begin());  // a cast
}

/// The weights for the error of the input. Those of a fully connected layer are a matrix.
void IntNetwork::turn(Stage& s, const std::int8_t* weights) {
    const Layer& l = s.convolution.layer;
    if (!l.fully_connected() || l.outputs < kGroup) return zo::turn(l, weights, s.turned.data());
    for (int next = 0; next < l.outputs; next += kGroup) {
        const int first = std::min(next, l.outputs - kGroup);  // the last ones perhaps once more
        machine_.kernels.transpose(weights + std::ptrdiff_t(first) * l.fan_in(), l.fan_in(), kGroup, l.fan_in(),
                                   s.turned.data() + first, l.outputs);
    }
}

void IntNetwork::pass_error_on(Stage& s, int layer, IntMap& to) {
    const Layer& t = s.backward->layer;
    turn(s, weights(layer).data());
    const int groups = padded_groups();
    s.backward->read(s.error, groups);
    s.backward->take(s.turned);
    const Range range = s.backward->run(sums_, groups, false, false);
    IntMap out = to.reshaped(t.outputs, t.rows(), t.columns());
    narrow(t, out, groups, shift_of(range), false, {});
}

void IntNetwork::descend() {
    std::int8_t* const w = parameters_.data() + offsets_[tail_];
    machine_.kernels.move_i8({w, w, updates_.data(), updates_.size(), -1});
}

}  // namespace zo
