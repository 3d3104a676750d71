#include "float_norm.hpp"

#include <algorithm>
#include <cmath>

namespace zo {
namespace {

/// Two sums over a channel.
struct Pair {
    double first = 0, second = 0;

    /// Adds those of the lanes that have samples.
    void add(const float (&sums)[2 * kGroup], int lanes) {
        for (int lane = 0; lane < lanes; ++lane) {
            first += sums[lane];
            second += sums[kGroup + lane];
        }
    }
};

/// Calls visit(group, lanes with a sample) for every group of a batch.
template <class Visit>
void each_group(int batch, const Visit& visit) {
    for (int g = 0; g * kGroup < batch; ++g) visit(g, std::min(kGroup, batch - g * kGroup));
}

}  // namespace

void FloatNorm::reserve(Arena& arena) {
    arena.reserve(running_, 2 * layer_.outputs);
    arena.reserve(used_, 2 * layer_.outputs);
}

void FloatNorm::prepare() { std::ranges::fill(running_.subspan(layer_.outputs), 1.0f); }

Affine FloatNorm::affine(int channel, float mean, float inverse, const float* parameters) {
    used_[channel] = mean;
    used_[layer_.outputs + channel] = inverse;
    const float factor = parameters[channel] * inverse;
    return {factor, parameters[layer_.outputs + channel] - mean * factor};
}

Affine FloatNorm::by_running(int channel, const float* parameters) {
    const float variance = running_[layer_.outputs + channel];
    return affine(channel, running_[channel], 1 / std::sqrt(variance + layer_.norm_eps),
                  parameters);
}

ChannelMoments FloatNorm::moments(int channel, const FloatMap& sums, int batch) const {
    const int places = layer_.rows() * layer_.columns();
    const double count = double(batch) * places;
    const auto about = [&](float center) {
        Pair all;
        each_group(batch, [&](int g, int lanes) {
            float lane_sums[2 * kGroup];
            machine_.kernels.moments_f32(sums.at(g, channel, 0, 0), places, center, lane_sums);
            all.add(lane_sums, lanes);
        });
        return all;
    };
    float mean = float(about(0).first / count);
    Pair all = about(mean);
    // A sum of many numbers far from 0 is off. Where this shows, the sum of what is left gives the
    // error of the mean.
    for (int turn = 0; turn < 3 && all.first * all.first > 1e-3 * all.second * count; ++turn) {
        mean += float(all.first / count);
        all = about(mean);
    }
    return {mean + all.first / count, all.second - all.first * all.first / count, count};
}

Affine FloatNorm::by_batch(int channel, const ChannelMoments& moments, const float* parameters) {
    const auto [mean, squares, count] = moments;
    const float inverse = float(1 / std::sqrt(squares / count + layer_.norm_eps));
    const float momentum = layer_.norm_momentum;
    float &running_mean = running_[channel], &running_variance = running_[layer_.outputs + channel];
    running_mean = (1 - momentum) * running_mean + momentum * float(mean);
    running_variance = (1 - momentum) * running_variance + momentum * float(squares / (count - 1));
    return affine(channel, float(mean), inverse, parameters);
}

Mix FloatNorm::backward(int channel, double errors, double products, double count,
                        const float* parameters, float factor, float* gradient) const {
    const double inverse = used_[layer_.outputs + channel], of_scale = products * inverse,
                 a = parameters[channel] * inverse;
    gradient[channel] += factor * float(of_scale);
    gradient[layer_.outputs + channel] += factor * float(errors);
    if (layer_.norm_frozen) return {float(a), 0, 0};  // its statistics do not depend on the sums
    return {float(a), float(-a * inverse * of_scale / count), float(-a * errors / count)};
}

void FloatNorm::backward(int channel, const FloatMap& sums, const FloatMap& error, int batch,
                         const float* parameters, float factor, float* gradient) const {
    const float mean = used_[channel];
    const double count = double(batch) * layer_.rows() * layer_.columns();
    const auto part = [&](int g) {
        return FloatChannel{sums.at(g, channel, 0, 0), error.at(g, channel, 0, 0), error.row(),
                            layer_.rows(), layer_.columns()};
    };
    Pair all;
    each_group(batch, [&](int g, int lanes) {
        float lane_sums[2 * kGroup];
        machine_.kernels.error_moments_f32(part(g), mean, lane_sums);
        all.add(lane_sums, lanes);
    });
    const auto [a, b, c] =
        backward(channel, all.first, all.second, count, parameters, factor, gradient);
    each_group(batch, [&](int g, int lanes) {
        machine_.kernels.mix_f32(part(g), a, b, c - b * mean, lanes);
    });
}

}  // namespace zo
