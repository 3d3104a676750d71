#include "int_groups.hpp"

#include <algorithm>
#include <stdexcept>

#include "parallel.hpp"
#include "rounding.hpp"

namespace zo {
namespace {

/// Whether sums are pooled while they are computed: no range is lost if every sum is in a window.
bool fuses(const Layer& l) { return !l.fully_connected() && l.pools_by_two(); }

/// Offsets of the weights of one output in a map.
std::vector<std::int32_t> tap_places(const Layer& l, const IntMap& map) {
    std::vector<std::int32_t> taps;
    for (int c = 0; c < l.channels; ++c)
        for (int y = 0; y < l.kernel_height; ++y)
            for (int x = 0; x < l.kernel_width; ++x)
                taps.push_back(
                    std::int32_t(((c * l.padded_height() + y) * l.padded_width() + x) * map.batch));
    return taps;
}

}  // namespace

GroupedIntNetwork::Stage::Stage(const Layer& layer, bool signed_input, const Machine& machine,
                                bool in_tail, bool passes_error, bool reads_sums, Arena& arena)
    : input{{},
            layer.channels,
            layer.height,
            layer.width,
            layer.padding,
            in_tail ? machine.capacity : kGroup,
            in_tail ? 1 : machine.capacity / kGroup},
      convolution(layer, signed_input, machine, arena),
      in_tail(in_tail),
      reads_sums(reads_sums) {
    if (!in_tail) return;
    pooled_error = {{}, layer.outputs,   layer.pooled_rows(), layer.pooled_columns(),
                    0,  machine.capacity};
    error = {
        {}, layer.outputs, layer.rows(), layer.columns(), layer.error_padding(), machine.capacity};
    if (passes_error)
        backward = std::make_unique<IntConvolution>(transposed(layer), true, machine, arena);
}

GroupedIntNetwork::GroupedIntNetwork(std::vector<Layer> layers, std::vector<int> exponents,
                                     int tail, Machine machine)
    : IntNetwork(std::move(layers), std::move(exponents), tail, machine, kBatchUnit) {
    const int count = int(layers_.size());
    for (int i = 0; i < count; ++i) {
        const Layer& l = layers_[i];
        const bool in_tail = i >= tail, unfused = in_tail || !fuses(l);
        const bool reads_sums = i > 0 && (fuses(layers_[i - 1]) || !layers_[i - 1].pools());
        stages_.emplace_back(l, i == 0 || !layers_[i - 1].rectified, machine_, in_tail, i > tail,
                             reads_sums, arena_);
        Stage& s = stages_.back();
        if (s.input.elements() * s.input.parts >= (std::size_t(1) << 31))
            throw std::invalid_argument("layer " + l.name +
                                        ": more than 2^31 inputs in a batch of " +
                                        std::to_string(machine_.capacity));
        if (in_tail || !reads_sums) s.input.reserve(arena_);
        const std::size_t places = unfused ? std::size_t(l.rows()) * l.columns()
                                           : std::size_t(l.pooled_rows()) * l.pooled_columns();
        IntSums& sums = l.fully_connected() ? joint_ : sums_;
        sums.group = std::max(sums.group, l.outputs * places * kGroup);
        if (!in_tail) continue;
        if (l.rectified || l.pools())
            arena_.reserve(s.choices, std::size_t(l.features()) * machine_.capacity);
        arena_.keep(s.taps, tap_places(l, s.input));
        s.pooled_error.reserve(arena_);
        s.error.reserve(arena_);
        if (!s.backward) continue;
        arena_.reserve(s.turned, l.weights() + kGroup);  // a row is written by 16
        const Layer& t = s.backward->layer;
        IntSums& errors = t.fully_connected() ? joint_ : sums_;
        errors.group =
            std::max(errors.group, std::size_t(t.outputs) * t.rows() * t.columns() * kGroup);
    }
    output_ = {{}, classes(), 1, 1, 0, machine_.capacity};
    output_.reserve(arena_);
    for (IntSums* sums : {&sums_, &joint_})
        arena_.reserve(sums->values, sums->group * (machine_.capacity / kGroup));
    arena_.reserve(row_gradient_, most_of_rows_);
    arena_.reserve(window_gradient_, most_of_windows_);
}

void GroupedIntNetwork::allocate() {
    arena_.allocate();
    for (Stage& s : stages_) {
        s.convolution.prepare();
        if (s.backward) s.backward->prepare();
    }
}

void GroupedIntNetwork::read(const std::int8_t* inputs, int batch, int exponent) {
    IntMap& map = stages_.front().input;
    const std::size_t features = this->inputs();
    parallel(machine_.threads, groups(batch), [=, this](long g) {
        const int samples = std::min(kGroup, batch - int(g) * kGroup);
        const std::int8_t* from = inputs + g * kGroup * features;
        for (int c = 0; c < map.channels; ++c)
            for (int y = 0; y < map.height; ++y, from += map.width)
                machine_.kernels.transpose_i8(from, std::ptrdiff_t(features), samples, map.width,
                                              map.at(g) + map.row(c, y, 0) * map.batch, map.batch);
        stages_.front().convolution.read_group(map, g);
    });
    // Gradients read errors in whole vectors of samples; those behind the batch have to be zero.
    if (batch < with_errors_) forget_errors();
    batch_ = batch;
    exponent_ = exponent;
}

IntLogits GroupedIntNetwork::forward(bool recorded) {
    const int groups = this->groups(batch_);
    int exponent = exponent_;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
        Stage& s = stages_[i];
        const bool kept = recorded && s.in_tail, pooled = fuses(layers_[i]) && !kept;
        if (i > 0 && (kept || !s.reads_sums)) s.convolution.read(s.input, groups);
        s.convolution.take(weights(int(i)));
        const IntSums& sums = sums_of(layers_[i]);
        const Range range = s.convolution.run(sums, groups, pooled, false);
        const int shift = activation_shift(range.least, range.greatest);
        // A cast turns 128 into -128, which is no maximum any more.
        if (pooled && shift == 0 && range.greatest > kLargest)
            s.convolution.run(sums, groups, pooled, true);
        exponent += exponents_[i] + shift;
        const bool last = i + 1 == stages_.size();
        Stage* const next = last ? nullptr : &stages_[i + 1];
        if (next && next->reads_sums && !(recorded && next->in_tail)) {
            next->convolution.read(sums, groups, shift, layers_[i].rectified);
            continue;
        }
        IntMap out = last ? output_ : next->input;
        if (last || layers_[i + 1].fully_connected())
            out = out.reshaped(layers_[i].outputs, layers_[i].pooled_rows(),
                               layers_[i].pooled_columns());
        narrow(layers_[i], out, groups, shift, pooled,
               recorded ? s.choices : std::span<std::uint16_t>());
    }
    const int classes = this->classes();
    for (int c = 0; c < classes; ++c) {
        const std::int8_t* const from = output_.at(c, 0, 0);
        std::int8_t* const to = logits_.data() + c;
        for (int b = 0; b < batch_; ++b) to[std::ptrdiff_t(b) * classes] = from[b];
    }
    return {logits_.data(), batch_, classes, exponent};
}

void GroupedIntNetwork::narrow(const Layer& l, const IntMap& out, int groups, int shift,
                               bool pooled, std::span<std::uint16_t> choices) {
    const IntSums& sums = sums_of(l);
    const int rows = pooled ? l.pooled_rows() : l.rows(),
              columns = pooled ? l.pooled_columns() : l.columns();
    // Outputs of one sum each are narrowed as if they were a row, not in a job of one vector each.
    const bool single = rows * columns == 1;
    const int jobs = single ? 1 : l.outputs;
    const int threads =
        sharing(machine_.threads, std::size_t(groups) * l.outputs * rows * columns * 8);
    parallel(threads, long(groups) * jobs, [=, this, &l](long number) {
        const long g = number / jobs, o = number % jobs;
        Narrow job{};
        job.x = sums.at(g) + o * rows * columns * kGroup;
        job.rows = rows;
        job.columns = single ? l.outputs : columns;
        job.pool_height = pooled ? 1 : l.pool_height;
        job.pool_width = pooled ? 1 : l.pool_width;
        job.shift = shift;
        job.rectified = l.rectified;
        job.y = out.at(g) + out.row(int(o), 0, 0) * out.batch;
        job.y_row = std::ptrdiff_t(out.padded_width()) * out.batch;
        job.y_column = (single ? out.row(1, 0, 0) - out.row(0, 0, 0) : 1) * out.batch;
        if (!choices.empty()) {
            job.choices = choices.data() +
                          o * l.pooled_rows() * l.pooled_columns() * machine_.capacity + g * kGroup;
            job.choice_step = machine_.capacity;
        }
        machine_.kernels.narrow(job);
    });
}

}  // namespace zo
