#include "int_compact.hpp"

#include <algorithm>

#include "parallel.hpp"
#include "rounding.hpp"

namespace zo {
namespace {

std::size_t inputs_of(const Layer& l) { return std::size_t(l.channels) * l.height * l.width; }
std::size_t sums_of(const Layer& l) { return std::size_t(l.outputs) * l.rows() * l.columns(); }

/// N(a, k) of docs/integer.md; k = 0 is a cast.
int narrowed(std::int32_t a, int k) {
    if (k == 0) return std::int8_t(a);
    return std::clamp((((a + (a >> 31)) >> (k - 1)) + 1) >> 1, -kLargest, kLargest);
}

/// Which outputs a tap reaches along one axis, and by how much its input lies off.
struct Reach {
    Reach(int tap, int padding, int inputs, int outputs)
        : first(std::max(0, padding - tap)),
          last(std::max(first, std::min(outputs, inputs + padding - tap))),
          offset(tap - padding) {}

    int first, last, offset;
};

/// Calls work(first weight's number, output's first place, input's first place, length) for the
/// rows of one output channel that a tap of a kernel takes.
template <class Work>
void each_row(const Layer& l, const Work& work) {
    int tap = 0;
    for (int c = 0; c < l.channels; ++c)
        for (int ky = 0; ky < l.kernel_height; ++ky)
            for (int kx = 0; kx < l.kernel_width; ++kx, ++tap) {
                const Reach down(ky, l.padding, l.height, l.rows()),
                    right(kx, l.padding, l.width, l.columns());
                for (int y = down.first; y < down.last; ++y)
                    work(tap, std::size_t(y) * l.columns() + right.first,
                         (std::size_t(c) * l.height + y + down.offset) * l.width + right.first +
                             right.offset,
                         right.last - right.first);
            }
}

}  // namespace

CompactIntNetwork::CompactIntNetwork(std::vector<Layer> layers, std::vector<int> exponents,
                                     int tail, Machine machine)
    : IntNetwork(std::move(layers), std::move(exponents), tail, machine, 1), kept_(layers_.size()) {
    const std::size_t capacity = machine_.capacity;
    std::size_t most_between = 0, most_sums = 0, most_errors = 0, most_passed = 0;
    for (int i = 0; i < int(layers_.size()); ++i) {
        const Layer& l = layers_[i];
        most_sums = std::max(most_sums, sums_of(l));
        if (i > 0 && i < tail) most_between = std::max(most_between, inputs_of(l));
        if (i < tail) continue;
        if (i > 0) arena_.reserve(kept_[i].input, capacity * inputs_of(l));
        if (i > tail) most_passed = std::max(most_passed, inputs_of(l));
        if (l.rectified || l.pools()) arena_.reserve(kept_[i].choices, capacity * l.features());
        most_errors = std::max(most_errors, std::size_t(l.features()));
        sum_error_bytes_ = std::max(sum_error_bytes_, capacity * sums_of(l));
    }
    arena_.reserve(inputs_, capacity * inputs());
    arena_.reserve(flow_, capacity * most_between);
    arena_.reserve(errors_, capacity * most_errors);
    const std::size_t backward =
        std::max({4 * capacity * most_passed, 4 * most_of_rows_, 8 * most_of_windows_});
    const std::size_t bytes = std::max(4 * capacity * most_sums, backward + sum_error_bytes_);
    arena_.reserve(scratch_, (bytes + 7) / 8);
}

/// The sums of a forward pass are dead when errors are passed back. Of a layer the errors of its
/// sums are read while first its gradient and then the errors of its input are added up.
void CompactIntNetwork::allocate() {
    IntNetwork::allocate();
    sums_ = {reinterpret_cast<std::int32_t*>(scratch_.data()), 2 * scratch_.size()};
    row_gradient_ = sums_;
    window_gradient_ = scratch_;
    auto* const end = reinterpret_cast<std::int8_t*>(scratch_.data() + scratch_.size());
    sum_errors_ = {end - sum_error_bytes_, sum_error_bytes_};
}

void CompactIntNetwork::read(const std::int8_t* inputs, int batch, int exponent) {
    std::copy_n(inputs, batch * this->inputs(), inputs_.data());
    batch_ = batch;
    exponent_ = exponent;
}

const std::int8_t* CompactIntNetwork::source(int layer) const {
    if (layer == 0) return inputs_.data();
    return layer >= tail_ ? kept_[layer].input.data() : flow_.data();
}

std::int8_t* CompactIntNetwork::target(int layer) const {
    const int next = layer + 1;
    if (next == int(layers_.size())) return logits_.data();
    return next >= tail_ ? kept_[next].input.data() : flow_.data();
}

IntLogits CompactIntNetwork::forward(bool recorded) {
    int exponent = exponent_;
    for (int i = 0; i < int(layers_.size()); ++i) {
        sum(i);
        const int shift = shift_of_sums(sums_of(layers_[i]));
        exponent += exponents_[i] + shift;
        narrow(i, shift, recorded ? kept_[i].choices : std::span<std::uint16_t>());
    }
    return {logits_.data(), batch_, classes(), exponent};
}

void CompactIntNetwork::sum(int layer) {
    const Layer& l = layers_[layer];
    const std::size_t places = std::size_t(l.rows()) * l.columns(), inputs = inputs_of(l);
    const std::int8_t *const all = source(layer), *const weights = this->weights(layer).data();
    const int step = l.fully_connected() ? 1 : IntPlanes::kMost,
              jobs = (l.outputs + step - 1) / step;
    parallel(machine_.threads, long(batch_) * jobs, [=, this, &l](long number) {
        const long sample = number / jobs;
        const int first = int(number % jobs) * step;
        const std::int8_t* const x = all + sample * inputs;
        const std::int8_t* const w = weights + std::ptrdiff_t(first) * l.fan_in();
        std::int32_t* const y = sums_.data() + (sample * l.outputs + first) * places;
        if (l.fully_connected())
            *y = machine_.kernels.dot_i8(w, x, l.fan_in());
        else
            machine_.kernels.planes_i8({x, l.channels, l.height, l.width, w, l.kernel_height,
                                        l.kernel_width, l.padding, y, l.rows(), l.columns(),
                                        std::min(step, l.outputs - first)});
    });
}

/// The shift of the sums of the batch, of which each sample has so many.
int CompactIntNetwork::shift_of_sums(std::size_t of_sample) const {
    return activation_shift(
        0, std::int64_t(machine_.kernels.largest_i32(sums_.data(), batch_ * of_sample)));
}

/// Narrows and pools the sums. A window's first maximum is chosen.
void CompactIntNetwork::narrow(int layer, int shift, std::span<std::uint16_t> choices) {
    const Layer& l = layers_[layer];
    std::int8_t* const out = target(layer);
    parallel(machine_.threads, long(batch_) * l.outputs, [=, this, &l](long number) {
        const std::int32_t* const x = sums_.data() + number * l.rows() * l.columns();
        std::size_t at = number * l.pooled_rows() * l.pooled_columns();
        for (int r = 0; r < l.pooled_rows(); ++r)
            for (int c = 0; c < l.pooled_columns(); ++c, ++at) {
                int best = -kLargest - 2, choice = 0;
                for (int n = 0; n < l.pool_height * l.pool_width; ++n) {
                    const int y = r * l.pool_height + n / l.pool_width,
                              value = narrowed(
                                  x[y * l.columns() + c * l.pool_width + n % l.pool_width], shift);
                    if (value <= best) continue;
                    best = value;
                    choice = n;
                }
                if (l.rectified && best <= 0) {
                    best = 0;
                    choice = kNone;
                }
                out[at] = std::int8_t(best);
                if (!choices.empty()) choices[at] = std::uint16_t(choice);
            }
    });
}

LogitErrors CompactIntNetwork::logit_errors() { return {errors_.data(), 1, classes()}; }

void CompactIntNetwork::backward(int bits) {
    for (int i = int(layers_.size()) - 1; i >= tail_; --i) {
        spread_errors(i);
        multiply(i);
        round_gradient(i, bits);
        if (i > tail_) pass_errors_on(i);
    }
}

/// From the errors of the output to those of the sums: each goes to its window's first maximum.
void CompactIntNetwork::spread_errors(int layer) {
    const Layer& l = layers_[layer];
    const std::span<const std::uint16_t> choices = kept_[layer].choices;
    parallel(machine_.threads, long(batch_) * l.outputs, [=, this, &l](long number) {
        std::int8_t* const to = sum_errors_.data() + number * l.rows() * l.columns();
        std::fill_n(to, std::size_t(l.rows()) * l.columns(), 0);
        std::size_t at = number * l.pooled_rows() * l.pooled_columns();
        for (int r = 0; r < l.pooled_rows(); ++r)
            for (int c = 0; c < l.pooled_columns(); ++c, ++at) {
                const int n = choices.empty() ? 0 : choices[at];
                if (n == kNone) continue;
                const int y = r * l.pool_height + n / l.pool_width;
                to[y * l.columns() + c * l.pool_width + n % l.pool_width] = errors_[at];
            }
    });
}

/// The gradient of the weights.
void CompactIntNetwork::multiply(int layer) {
    const Layer& l = layers_[layer];
    const std::size_t places = std::size_t(l.rows()) * l.columns(), inputs = inputs_of(l);
    const std::int8_t *const x = source(layer), *const e = sum_errors_.data();
    const bool rows = l.fully_connected();
    const std::span<std::int32_t> of_rows = rows ? row_gradient(layer) : std::span<std::int32_t>();
    const std::span<std::int64_t> of_windows =
        rows ? std::span<std::int64_t>() : window_gradient(layer);
    parallel(machine_.threads, l.outputs, [=, this, &l](long o) {
        if (rows) {
            std::int32_t* const sums = of_rows.data() + o * l.fan_in();
            std::fill_n(sums, l.fan_in(), 0);
            for (int b = 0; b < batch_; ++b)
                machine_.kernels.add_i8(sums, e[std::size_t(b) * l.outputs + o], x + b * inputs,
                                        l.fan_in());
            return;
        }
        std::int64_t* const sums = of_windows.data() + o * l.fan_in();
        std::fill_n(sums, l.fan_in(), 0);
        for (int b = 0; b < batch_; ++b) {
            const std::int8_t *const from = x + b * inputs, *const errors =
                                                                e +
                                                                (std::size_t(b) * l.outputs + o) *
                                                                    places;
            each_row(l, [=, this](int tap, std::size_t at, std::size_t of_input, int count) {
                sums[tap] += machine_.kernels.dot_i8(errors + at, from + of_input, count);
            });
        }
    });
}

/// From the errors of the sums to those of the input, which is the output of the layer before.
void CompactIntNetwork::pass_errors_on(int layer) {
    const Layer& l = layers_[layer];
    const std::size_t places = std::size_t(l.rows()) * l.columns(), inputs = inputs_of(l);
    const std::int8_t* const weights = this->weights(layer).data();
    parallel(machine_.threads, batch_, [=, this, &l](long b) {
        std::int32_t* const to = sums_.data() + b * inputs;
        std::fill_n(to, inputs, 0);
        for (int o = 0; o < l.outputs; ++o) {
            const std::int8_t *const w = weights + std::size_t(o) * l.fan_in(),
                                     *const e = sum_errors_.data() + (b * l.outputs + o) * places;
            if (l.fully_connected())
                machine_.kernels.add_i8(to, *e, w, l.fan_in());
            else
                each_row(l, [=, this](int tap, std::size_t at, std::size_t of_input, int count) {
                    machine_.kernels.add_i8(to + of_input, w[tap], e + at, count);
                });
        }
    });
    const int shift = shift_of_sums(inputs);
    for (std::size_t i = 0; i < batch_ * inputs; ++i)
        errors_[i] = std::int8_t(narrowed(sums_[i], shift));
}

}  // namespace zo
