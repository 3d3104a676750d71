#include "float_training.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "counter.hpp"
#include "parallel.hpp"

namespace zo {
namespace {

constexpr std::size_t kPiece = 4096;  // weights moved at a time; a multiple of 2 kGroup

}  // namespace

void FloatSettings::check() const {
    if (!(eps > 0) || !std::isfinite(eps))
        throw std::invalid_argument("eps = " + std::to_string(eps) +
                                    ": must be a finite number above 0");
    if (!(clip > 0))
        throw std::invalid_argument("clip = " + std::to_string(clip) + ": must be above 0");
}

FloatTraining::FloatTraining(std::vector<Layer> layers, int tail, Machine machine,
                             FloatSettings settings)
    : network_(std::move(layers), tail, machine), settings_(settings) {
    settings.check();
    network_.arena().reserve(error_, std::size_t(machine.capacity) * network_.classes());
    if (network_.head_parameters() <= kKeptNoise)
        network_.arena().reserve(kept_, network_.head_parameters());
    network_.allocate();
}

void FloatTraining::move(std::uint64_t key, float factor) {
    const Machine& machine = network_.machine();
    const std::size_t all = network_.head_parameters();
    const bool draw = kept_.empty() || kept_key_ != key;
    parallel(machine.threads, long((all + kPiece - 1) / kPiece), [&](long i) {
        float own[kPiece];
        const std::size_t first = i * kPiece, count = std::min(kPiece, all - first);
        float* const z = kept_.empty() ? own : kept_.data() + first;
        if (draw) machine.kernels.gaussian_f32(key, first, count, z);
        machine.kernels.move_f32(network_.parameters().data() + first, z, count, factor);
    });
    kept_key_ = key;
}

double FloatTraining::pass(std::span<const std::int64_t> labels, float share) {
    const bool recorded = share > 0 && network_.tail() < int(network_.layers().size());
    const std::span<const float> logits =
        network_.forward(recorded ? Pass::kRecorded : Pass::kTraining);
    timers_.lap(kForward);
    const double loss = cross_entropy(logits, labels, recorded ? error_.data() : nullptr);
    timers_.lap(kLoss);
    if (recorded) {
        network_.backward(error_.data(), share);
        timers_.lap(kBackward);
    }
    return loss;
}

/// Updates the tail, or forgets a gradient that is not finite.
void FloatTraining::finish(bool finite, float lr) {
    if (finite)
        network_.descend(lr);
    else
        network_.forget();
    timers_.lap(kBackward);
}

FloatStep FloatTraining::step(const float* inputs, std::span<const std::int64_t> labels,
                              std::uint64_t number, float lr) {
    timers_.start();
    network_.read(inputs, int(labels.size()));
    timers_.lap(kOther);
    FloatStep step{};
    if (network_.head_parameters() == 0) {
        step.plus = step.minus = pass(labels, 1);
        step.finite = std::isfinite(step.plus) && network_.can_descend(lr);
        finish(step.finite, lr);
        return step;
    }
    const float eps = settings_.eps;
    step.key = stream_key(settings_.seed, number, Purpose::kNoise);
    move(step.key, eps);
    timers_.lap(kPerturb);
    step.plus = pass(labels, settings_.plus_share);
    move(step.key, -2 * eps);
    timers_.lap(kPerturb);
    step.minus = pass(labels, settings_.minus_share);
    step.finite = std::isfinite(step.plus) && std::isfinite(step.minus);
    if (step.finite)
        step.gradient = std::clamp(float((step.plus - step.minus) / (2.0 * eps)), -settings_.clip,
                                   settings_.clip);
    const float last = eps - lr * step.gradient;
    step.finite = step.finite && std::isfinite(last) && network_.can_descend(lr);
    move(step.key, step.finite ? last : eps);
    timers_.lap(kUpdate);
    finish(step.finite, lr);
    return step;
}

double cross_entropy(std::span<const float> logits, std::span<const std::int64_t> labels,
                     float* error) {
    const std::size_t batch = labels.size(), classes = logits.size() / batch;
    double all = 0;
    for (std::size_t b = 0; b < batch; ++b) {
        const float* const s = logits.data() + b * classes;
        const float greatest = *std::max_element(s, s + classes);
        double sum = 0;
        for (std::size_t c = 0; c < classes; ++c) sum += std::exp(double(s[c]) - greatest);
        all += std::log(sum) - (double(s[labels[b]]) - greatest);
        if (!error) continue;
        for (std::size_t c = 0; c < classes; ++c) {
            const double p = std::exp(double(s[c]) - greatest) / sum;
            error[b * classes + c] = float((p - (std::int64_t(c) == labels[b])) / double(batch));
        }
    }
    return all / double(batch);
}

}  // namespace zo
