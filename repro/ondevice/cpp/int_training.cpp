#include "int_training.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "counter.hpp"
#include "int_compact.hpp"
#include "int_groups.hpp"
#include "rounding.hpp"
#include "team.hpp"

namespace zo {
namespace {

void require(bool holds, const std::string& rule) {
    if (!holds) throw std::invalid_argument(rule);
}

std::unique_ptr<IntNetwork> network_of(std::vector<Layer> layers, std::vector<int> exponents,
                                       int tail, Machine machine) {
    if (machine.compact)
        return std::make_unique<CompactIntNetwork>(std::move(layers), std::move(exponents), tail,
                                                   machine);
    return std::make_unique<GroupedIntNetwork>(std::move(layers), std::move(exponents), tail,
                                               machine);
}

}  // namespace

void IntSettings::check() const {
    require(2 <= r_max && r_max <= kLargest,
            "r_max = " + std::to_string(r_max) + ": must be from 2 to 127");
    require(0 <= p_zero && p_zero <= 1 - 1.0 / 65536,
            "p_zero = " + std::to_string(p_zero) + ": must be from 0 to 1 - 2^-16");
    require(0 <= b_zo && b_zo < kMagnitudeBits,
            "b_zo = " + std::to_string(b_zo) + ": must be from 0 to 6");
    require(0 <= b_bp && b_bp < kMagnitudeBits,
            "b_bp = " + std::to_string(b_bp) + ": must be from 0 to 6");
}

IntTraining::IntTraining(std::vector<Layer> layers, std::vector<int> exponents, int tail,
                         Machine machine, IntSettings settings)
    : network_(network_of(std::move(layers), std::move(exponents), tail, machine)),
      perturbation_(*network_),
      settings_(settings) {
    settings.check();
    Arena& arena = network_->arena();
    if (settings.exact_restore) arena.reserve(saved_, network_->head_parameters());
    perturbation_.reserve(arena);
    const std::size_t logits = std::size_t(machine.capacity) * network_->classes();
    arena.reserve(plus_, logits);
    arena.reserve(work_, network_->classes());
    network_->allocate();
}

IntLogits IntTraining::pass(std::span<const std::int64_t> labels, std::uint64_t number,
                            bool recorded) {
    const IntLogits logits = network_->forward(recorded);
    timers_.lap(kForward);
    if (!recorded) return logits;
    logit_errors(logits, labels, stream_key(settings_.seed, number, Purpose::kLossRounding), work_,
                 network_->logit_errors());
    network_->backward(settings_.b_bp);
    timers_.lap(kBackward);
    return logits;
}

IntStep IntTraining::step(const std::int8_t* inputs, int exponent,
                          std::span<const std::int64_t> labels, std::uint64_t number) {
    IntStep step{};
    Team::run(network_->machine().threads,
              [&] { step = led_step(inputs, exponent, labels, number); });
    return step;
}

IntStep IntTraining::led_step(const std::int8_t* inputs, int exponent,
                              std::span<const std::int64_t> labels, std::uint64_t number) {
    timers_.start();
    network_->read(inputs, int(labels.size()), exponent);
    timers_.lap(kOther);
    const bool tail = network_->tail() < int(network_->layers().size());
    if (perturbation_.empty()) {
        const IntLogits logits = pass(labels, number, true);
        const double loss = mean_loss(settings_.sign, logits, labels);
        timers_.lap(kLoss);
        network_->descend();
        timers_.lap(kBackward);
        return {{0, loss, loss}, 0, 0};
    }
    const std::uint64_t key = stream_key(settings_.seed, number, Purpose::kNoise);
    const bool exact = settings_.exact_restore;
    const std::span<const std::int8_t> weights =
        network_->parameters().first(network_->head_parameters());
    if (exact) std::ranges::copy(weights, saved_.begin());
    const std::span<const std::int8_t> from =
        exact ? std::span<const std::int8_t>(saved_) : weights;

    // As Python's round: halves to even.
    perturbation_.start(
        {key, settings_.r_max, int(std::nearbyint((1 - settings_.p_zero) * 65536))});
    std::size_t clipped = perturbation_.perturb(1, from);
    timers_.lap(kPerturb);
    IntLogits plus = pass(labels, number, tail && !settings_.minus_activations);
    std::copy_n(plus.values, std::size_t(plus.batch) * plus.classes, plus_.data());
    plus.values = plus_.data();
    clipped += perturbation_.perturb(exact ? -1 : -2, from);
    timers_.lap(kPerturb);
    const IntLogits minus = pass(labels, number, tail && settings_.minus_activations);
    passes_ = {plus, minus};
    const Comparison losses = compare(settings_.sign, plus, minus, labels);
    timers_.lap(kLoss);
    if (losses.sign)
        perturbation_.update(exact ? 0 : 1, from, losses.sign, settings_.b_zo);
    else
        perturbation_.perturb(exact ? 0 : 1, from);
    timers_.lap(kUpdate);
    network_->descend();
    timers_.lap(kBackward);
    return {losses, key, clipped};
}

}  // namespace zo
