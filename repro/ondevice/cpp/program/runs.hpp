// A run in either number format, with one interface for the training loop.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "../finite.hpp"
#include "../float_training.hpp"
#include "../int_training.hpp"
#include "files.hpp"
#include "lenet5.hpp"
#include "options.hpp"

namespace zo {

/// How many of the greatest logits are the labels'; of equal ones the first counts.
template <class T>
int correct(std::span<const T> logits, std::span<const std::int64_t> labels) {
    const std::size_t classes = logits.size() / labels.size();
    int count = 0;
    for (std::size_t b = 0; b < labels.size(); ++b) {
        const auto row = logits.subspan(b * classes, classes);
        count += std::ranges::max_element(row) - row.begin() == labels[b];
    }
    return count;
}

class FloatRun {
   public:
    using Value = float;

    FloatRun(const Options& o, const std::vector<Layer>& layers, int tail, const Machine& machine)
        : lr_(o.lr),
          levels_(grey_levels(o.mean, o.deviation)),
          training_(layers, tail, machine,
                    {.eps = float(o.eps), .clip = float(o.clip), .seed = o.seed}) {
        if (o.load.empty())
            initialise(layers, o.seed, parameters());
        else
            load_bytes(o.load, bytes());
        const auto weights = parameters();
        if (!all_finite(weights.size(), [&](std::size_t i) { return weights[i]; }))
            throw std::runtime_error(o.load + ": a weight is not finite");
    }
    static bool has_bias() { return true; }
    static int batch_unit(const Options&) { return kGroup; }
    std::span<const float> levels() const { return levels_; }
    void start_epoch(int epoch, int) { rate_ = float(lr_ * std::pow(0.8, epoch / 10)); }
    void step(const float* inputs, std::span<const std::int64_t> labels, std::uint64_t number) {
        if (!training_.step(inputs, labels, number, rate_).finite)
            throw std::runtime_error("step " + std::to_string(number + 1) +
                                     ": the loss is not finite; lower --lr, --eps or --clip");
    }
    int evaluate(const float* inputs, std::span<const std::int64_t> labels) {
        training_.network().read(inputs, int(labels.size()));
        return correct(training_.network().forward(Pass::kEvaluation), labels);
    }
    void save(const std::string& path) { save_bytes(path, bytes()); }
    const Timers& timers() { return training_.timers(); }
    std::size_t arena_bytes() { return training_.network().arena().bytes(); }

   private:
    std::span<float> parameters() { return training_.network().parameters(); }
    std::span<char> bytes() {
        return {reinterpret_cast<char*>(parameters().data()), parameters().size_bytes()};
    }

    const double lr_;
    float rate_ = 0;
    const std::vector<float> levels_;
    FloatTraining training_;
};

/// The file of parameters has the layers' exponents, a byte each, before the weights.
class IntRun {
   public:
    using Value = std::int8_t;

    IntRun(const Options& o, const std::vector<Layer>& layers, int tail, const Machine& machine)
        : state_(layers.size() + parameters(layers)),
          levels_(256),
          exponent_(quantise(grey_levels(o.mean, o.deviation), levels_)),
          training_(layers, begin(o, layers), tail, machine,
                    {.r_max = o.r_max,
                     .sign = o.precision == "int8_star" ? SignRule::kInteger : SignRule::kFloat,
                     .seed = o.seed}) {
        std::ranges::copy(std::span(state_).subspan(layers.size()),
                          training_.network().parameters().begin());
    }
    static bool has_bias() { return false; }
    static int batch_unit(const Options& o) { return o.compact ? 1 : kBatchUnit; }
    std::span<const std::int8_t> levels() const { return levels_; }
    void start_epoch(int epoch, int epochs) {
        const Bits phase = phase_of(epoch, epochs);
        training_.settings().b_bp = phase.b_bp;
        training_.settings().p_zero = phase.p_zero;
    }
    void step(const std::int8_t* inputs, std::span<const std::int64_t> labels,
              std::uint64_t number) {
        training_.step(inputs, exponent_, labels, number);
    }
    int evaluate(const std::int8_t* inputs, std::span<const std::int64_t> labels) {
        training_.network().read(inputs, int(labels.size()), exponent_);
        const IntLogits logits = training_.network().forward(false);
        return correct(std::span(logits.values, labels.size() * logits.classes), labels);
    }
    void save(const std::string& path) {
        const auto weights = training_.network().parameters();
        std::ranges::copy(weights, state_.end() - std::ptrdiff_t(weights.size()));
        save_bytes(path, {reinterpret_cast<const char*>(state_.data()), state_.size()});
    }
    const Timers& timers() { return training_.timers(); }
    std::size_t arena_bytes() { return training_.network().arena().bytes(); }

   private:
    /// Fills the state, from a file or at random; returns the exponents.
    std::vector<int> begin(const Options& o, const std::vector<Layer>& layers) {
        const std::span state(state_);
        if (o.load.empty()) {
            const std::vector<int> exponents =
                initialise(layers, o.seed, state.subspan(layers.size()));
            std::ranges::copy(exponents, state_.begin());
            return exponents;
        }
        load_bytes(o.load, {reinterpret_cast<char*>(state_.data()), state_.size()});
        for (std::int8_t w : state.subspan(layers.size()))
            if (w == -128)
                throw std::runtime_error(o.load + ": a weight of -128, must be from -127 to 127");
        return {state_.begin(), state_.begin() + std::ptrdiff_t(layers.size())};
    }

    std::vector<std::int8_t> state_, levels_;
    const int exponent_;
    IntTraining training_;
};

}  // namespace zo
