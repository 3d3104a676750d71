#include "pointwise_mlp_gradient.hpp"

#include <algorithm>

namespace zo {

PointwiseMlpGradient::PointwiseMlpGradient(const PointwiseMlp& mlp, int tail,
                                           const Machine& machine, Arena& arena)
    : mlp_(mlp),
      tail_(tail),
      machine_(machine),
      tiles_(mlp, tail, machine, arena),
      maximum_(mlp, tail, machine, tiles_, arena) {
    std::size_t outputs = 0, moments = 0, weights = 0;
    for (const PointwiseLayer& s : mlp.layers()) {
        if (s.index < tail || &s == &mlp.layers().back()) continue;
        const std::size_t tiles = std::size_t(machine.capacity / kGroup) * s.tiles;
        outputs = std::max(outputs, std::size_t(s.layer.outputs));
        moments = std::max(moments, tiles * s.layer.outputs);
        if (s.index > tail) weights = std::max(weights, s.layer.weights());
    }
    arena.reserve(mixes_, outputs);
    arena.reserve(moments_, moments);
    arena.reserve(turned_, weights);
}

void PointwiseMlpGradient::add(const float* parameters, float factor, float* gradient) {
    const auto& layers = mlp_.layers();
    for (int i = int(layers.size()) - 1; i >= tail_; --i) {
        const PointwiseLayer& s = layers[i];
        const GradientJob job{s, parameters + s.offset, factor,
                              gradient + s.offset - layers[tail_].offset, i > tail_};
        if (&s == &layers.back())
            maximum_.add(job);
        else
            add_hidden(job);
    }
}

FloatErrors PointwiseMlpGradient::errors(const PointwiseLayer& s, const Tile& t) const {
    FloatErrors job{};
    job.e = tiles_.errors().at(t.group, t.quad);
    job.e_quad = tiles_.errors().quad_step;
    job.x = s.sums.at(t.group, t.quad);
    job.x_quad = s.sums.quad_step;
    job.channels = s.layer.outputs;
    job.places = t.places;
    job.samples = t.samples;
    job.affines = s.affines.data();
    job.rectified = s.layer.rectified;
    job.means = s.norm ? s.norm->means() : nullptr;
    return job;
}

void PointwiseMlpGradient::add_hidden(const GradientJob& job) {
    const PointwiseLayer& s = job.layer;
    const Layer& l = s.layer;
    mix(job);
    const TileGradient::PassOn on{turned_.data(), nullptr, l.outputs};
    if (job.passes_on) turn(l, job.weights, turned_.data());
    tiles_.run(s, l.outputs, nullptr, job.passes_on ? &on : nullptr,
               [&](const Tile& t, const TileGradient::Scratch& own) {
                   machine_.kernels.gather_errors_f32(errors(s, t), mixes_.data(), own.errors);
                   return own.errors;
               });
    for (int o = 0; o < l.outputs; ++o)
        for (int c = 0; c < l.channels; ++c)
            job.gradient[o * l.channels + c] += job.factor * tiles_.sum(s, l.outputs, o, c);
}

/// Finds what the errors of the sums are made of, and with that the norm's gradient and the bias's.
void PointwiseMlpGradient::mix(const GradientJob& job) {
    const PointwiseLayer& s = job.layer;
    const Layer& l = s.layer;
    const int tiles = mlp_.groups() * s.tiles;
    parallel(machine_.threads, tiles, [&](long n) {
        machine_.kernels.row_error_moments_f32(errors(s, mlp_.tile(s, int(n))), moments_.data() + n,
                                               tiles);
    });
    for (int o = 0; o < l.outputs; ++o) {
        double sum = 0, products = 0;
        for (const ErrorMoments& m : moments_.subspan(std::size_t(o) * tiles, tiles)) {
            sum += m.sum;
            products += m.products;
        }
        mixes_[o] = job.mix(o, sum, products, double(mlp_.batch()) * mlp_.points());
    }
}

}  // namespace zo
