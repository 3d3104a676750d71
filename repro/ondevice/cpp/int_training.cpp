#include "int_training.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "counter.hpp"
#include "parallel.hpp"
#include "rounding.hpp"

namespace zo {
namespace {

constexpr std::size_t kPiece = 4096;  // weights moved at a time

void require(bool holds, const std::string& rule) {
    if (!holds) throw std::invalid_argument(rule);
}

}  // namespace

void IntSettings::check() const {
    require(2 <= r_max && r_max <= kLargest, "r_max = " + std::to_string(r_max) + ": must be from 2 to 127");
    require(0 <= p_zero && p_zero <= 1 - 1.0 / 65536,
            "p_zero = " + std::to_string(p_zero) + ": must be from 0 to 1 - 2^-16");
    require(0 <= b_zo && b_zo < kMagnitudeBits, "b_zo = " + std::to_string(b_zo) + ": must be from 0 to 6");
    require(0 <= b_bp && b_bp < kMagnitudeBits, "b_bp = " + std::to_string(b_bp) + ": must be from 0 to 6");
}

IntTraining::IntTraining(std::vector<Layer> layers, std::vector<int> exponents, int tail, Machine machine,
                         IntSettings settings)
    : network_(std::move(layers), std::move(exponents), tail, machine), settings_(settings) {
    settings.check();
    Arena& arena = network_.arena();
    if (settings.exact_restore) arena.reserve(saved_, network_.head_parameters());
    const std::size_t logits = std::size_t(machine.capacity) * network_.classes();
    arena.reserve(plus_, logits);
    arena.reserve(error_, logits);
    arena.reserve(work_, network_.classes());
    arena.reserve(largest_, network_.layers().size());
    network_.allocate();
    for (int layer = 0; layer < tail; ++layer)
        for (std::size_t i = network_.offset(layer); i < network_.offset(layer + 1); i += kPiece)
            pieces_.push_back({i, std::min(kPiece, network_.offset(layer + 1) - i), layer});
    moved_.resize(pieces_.size());
}

IntMove IntTraining::move_of(const Piece& piece, std::uint64_t key, int factor, std::span<const std::int8_t> from) {
    // As Python's round: halves to even.
    const int kept = int(std::nearbyint((1 - settings_.p_zero) * 65536));
    return {from.data() + piece.first, network_.parameters().data() + piece.first, piece.first, piece.count,
            key, settings_.r_max, kept, factor};
}

std::size_t IntTraining::move(std::uint64_t key, int factor, std::span<const std::int8_t> from, bool first) {
    const Machine& machine = network_.machine();
    parallel(machine.threads, long(pieces_.size()), [&](long i) {
        moved_[i] = machine.kernels.move_i8(move_of(pieces_[i], key, factor, from));
    });
    std::size_t clipped = 0;
    if (first) std::ranges::fill(largest_, 0);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        clipped += moved_[i].clipped;
        std::int32_t& largest = largest_[pieces_[i].layer];
        largest = std::max(largest, moved_[i].largest);
    }
    return clipped;
}

void IntTraining::descend(std::uint64_t key, int factor, std::span<const std::int8_t> from, int g) {
    const Machine& machine = network_.machine();
    parallel(machine.threads, long(pieces_.size()), [&](long i) {
        const GradientShift shift(largest_[pieces_[i].layer], settings_.b_zo);
        machine.kernels.descend_i8({move_of(pieces_[i], key, factor, from), g, shift.k, shift.vanishes});
    });
}

IntLogits IntTraining::pass(std::span<const std::int64_t> labels, std::uint64_t number, bool recorded) {
    const IntLogits logits = network_.forward(recorded);
    timers_.lap(kForward);
    if (!recorded) return logits;
    logit_error(logits, labels, stream_key(settings_.seed, number, Purpose::kLossRounding), work_, error_.data());
    network_.backward(error_.data(), settings_.b_bp);
    timers_.lap(kBackward);
    return logits;
}

IntStep IntTraining::step(const std::int8_t* inputs, int exponent, std::span<const std::int64_t> labels,
                          std::uint64_t number) {
    timers_.start();
    network_.read(inputs, int(labels.size()), exponent);
    timers_.lap(kOther);
    const bool tail = network_.tail() < int(network_.layers().size());
    if (pieces_.empty()) {
        const IntLogits logits = pass(labels, number, true);
        const double loss = mean_loss(settings_.sign, logits, labels);
        timers_.lap(kLoss);
        network_.descend();
        timers_.lap(kBackward);
        return {{0, loss, loss}, 0, 0};
    }
    const std::uint64_t key = stream_key(settings_.seed, number, Purpose::kNoise);
    const bool exact = settings_.exact_restore;
    const std::span<const std::int8_t> weights = network_.parameters().first(network_.head_parameters());
    if (exact) std::ranges::copy(weights, saved_.begin());
    const std::span<const std::int8_t> from = exact ? std::span<const std::int8_t>(saved_) : weights;

    std::size_t clipped = move(key, 1, from, true);
    timers_.lap(kPerturb);
    IntLogits plus = pass(labels, number, tail && !settings_.minus_activations);
    std::copy_n(plus.values, std::size_t(plus.batch) * plus.classes, plus_.data());
    plus.values = plus_.data();
    clipped += move(key, exact ? -1 : -2, from, false);
    timers_.lap(kPerturb);
    const IntLogits minus = pass(labels, number, tail && settings_.minus_activations);
    const Comparison losses = compare(settings_.sign, plus, minus, labels);
    timers_.lap(kLoss);
    if (losses.sign)
        descend(key, exact ? 0 : 1, from, losses.sign);
    else
        move(key, exact ? 0 : 1, from, false);
    timers_.lap(kUpdate);
    network_.descend();
    timers_.lap(kBackward);
    return {losses, key, clipped};
}

}  // namespace zo
