// The backward pass of an integer network, through its tail.
#include <algorithm>
#include <cstring>

#include "int_groups.hpp"
#include "parallel.hpp"
#include "rounding.hpp"

namespace zo {
LogitErrors GroupedIntNetwork::logit_errors() {
    const IntMap& map = stages_.back().pooled_error;
    return {map.at(0, 0, 0), (map.row(1, 0, 0) - map.row(0, 0, 0)) * map.batch, 1};
}

void GroupedIntNetwork::backward(int bits) {
    with_errors_ = std::max(with_errors_, batch_);
    for (int i = int(stages_.size()) - 1; i >= tail_; --i) {
        Stage& s = stages_[i];
        spread_error(s, groups(batch_) * kGroup);
        if (layers_[i].fully_connected())
            multiply_rows(s, row_gradient(i));
        else
            multiply_windows(s, window_gradient(i));
        round_gradient(i, bits);
        if (i > tail_) pass_error_on(s, i, stages_[i - 1].pooled_error);
    }
}

void GroupedIntNetwork::forget_errors() {
    for (Stage& s : stages_) {
        std::ranges::fill(s.pooled_error.values, 0);
        std::ranges::fill(s.error.values, 0);
    }
    with_errors_ = 0;
}

/// From the error of the output to that of the sums: each goes to its window's first maximum.
void GroupedIntNetwork::spread_error(Stage& s, int batch) {
    const Layer& l = s.convolution.layer;
    const std::size_t places = std::size_t(l.pooled_rows()) * l.pooled_columns();
    const std::size_t sums = std::size_t(l.outputs) * l.rows() * l.columns();
    parallel(sharing(machine_.threads, sums * batch / 8), l.outputs, [=, this, &s, &l](long o) {
        for (std::size_t place = 0; place < places; ++place) {
            const int py = int(place) / l.pooled_columns(), px = int(place) % l.pooled_columns();
            const std::int8_t* const from = s.pooled_error.at(int(o), py, px);
            const std::uint16_t* const choice =
                s.choices.empty() ? nullptr
                                  : s.choices.data() + (o * places + place) * machine_.capacity;
            for (int n = 0; n < l.pool_height * l.pool_width; ++n) {
                std::int8_t* const to = s.error.at(int(o), py * l.pool_height + n / l.pool_width,
                                                   px * l.pool_width + n % l.pool_width);
                if (choice)
                    machine_.kernels.route_i8(from, choice, n, batch, to);
                else
                    std::memcpy(to, from, batch);
            }
        }
    });
}

/// The gradient of a fully connected layer.
void GroupedIntNetwork::multiply_rows(const Stage& s, std::span<std::int32_t> sums) {
    const Layer& l = s.convolution.layer;
    constexpr int kTaps = 16;  // whole vectors
    const int threads = sharing(machine_.threads, l.weights() * batch_ / 64);
    parallel(threads, (l.fan_in() + kTaps - 1) / kTaps, [=, this, &s, &l](long block) {
        const int first = int(block) * kTaps;
        IntOuter job{};
        job.e = s.error.values.data();
        job.e_output = job.x_tap = machine_.capacity;
        job.outputs = l.outputs;
        job.x = s.input.values.data() + first * job.x_tap;
        job.tap_count = std::min(kTaps, l.fan_in() - first);
        job.samples = batch_;
        job.sums = sums.data() + first;
        job.sums_output = l.fan_in();
        machine_.kernels.outer_i8(job);
    });
}

/// The gradient of a convolution.
void GroupedIntNetwork::multiply_windows(const Stage& s, std::span<std::int64_t> sums) {
    const Layer& l = s.convolution.layer;
    std::ranges::fill(sums, 0);
    constexpr int kOutputs = 8;
    const int blocks = (l.outputs + kOutputs - 1) / kOutputs,
              chunk = machine_.kernels.products_chunk;
    parallel(machine_.threads, blocks, [=, this, &s, &l](long block) {
        IntProducts job{};
        const int first = int(block) * kOutputs;
        job.outputs = std::min(kOutputs, l.outputs - first);
        job.e = s.error.at(first, 0, 0);
        job.e_output =
            std::ptrdiff_t(s.error.padded_height()) * s.error.padded_width() * s.error.batch;
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
        job.sums_output = l.fan_in();
        job.factor = 1;
        constexpr int kColumns = 1 << 10;  // of a row, whose products the kernel adds up in int32
        for (int c = 0; c < l.columns(); c += kColumns) {
            job.columns = std::min(kColumns, l.columns() - c);
            machine_.kernels.products_i8(job);
            job.e += kColumns * job.e_column;
            job.x += kColumns * job.x_column;
        }
    });
}

/// The weights for the error of the input. Those of a fully connected layer are a matrix.
void GroupedIntNetwork::turn(Stage& s, const std::int8_t* weights) {
    const Layer& l = s.convolution.layer;
    if (!l.fully_connected()) return zo::turn(l, weights, s.turned.data());
    const int step = std::min(l.outputs, kGroup);
    for (int next = 0; next < l.outputs; next += step) {
        const int first = std::min(next, l.outputs - step);  // the last ones perhaps once more
        machine_.kernels.transpose_i8(weights + std::ptrdiff_t(first) * l.fan_in(), l.fan_in(),
                                      step, l.fan_in(), s.turned.data() + first, l.outputs);
    }
}

void GroupedIntNetwork::pass_error_on(Stage& s, int layer, IntMap& to) {
    const Layer& t = s.backward->layer;
    turn(s, weights(layer).data());
    const int groups = this->groups(batch_);
    s.backward->read(s.error, groups);
    s.backward->take(s.turned);
    const Range range = s.backward->run(sums_of(t), groups, false, false);
    IntMap out = to.reshaped(t.outputs, t.rows(), t.columns());
    narrow(t, out, groups, activation_shift(range.least, range.greatest), false, {});
}

}  // namespace zo
