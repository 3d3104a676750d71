// Rows of points in quads: what layers that all points share do beside their products.
#pragma once

#include "../kernels.hpp"
#include "simd.hpp"

namespace zo::ZO_ISA {

inline void gather_f32(const FloatGather& job) {
    for (int q = 0; q < job.quads; ++q)
        for (int c = 0; c < job.channels; ++c) {
            const float* const x = job.x + q * job.x_quad + c * job.x_channel;
            float* const y = job.y + (std::ptrdiff_t(q) * job.channels + c) * 64;
            const F factor = splat(job.affines ? job.affines[c].factor : 1.0f),
                    summand = splat(job.affines ? job.affines[c].summand : 0.0f);
            for (int i = 0; i < 64; i += L) {
                const F value = load<F>(x + i) * factor + summand;
                store(y + i, job.rectified ? maximum(F{}, value) : value);
            }
        }
}

/// Calls visit(quad, place in it, vector) for a part of every place of a row.
ZO_INLINE void each_place(const FloatRows& job, int row, int part, const auto& visit) {
    const float* x = job.x + row * job.x_row + part * L;
    int n = 0;
    for (; n + 4 <= job.places; n += 4, x += job.x_quad)
        ZO_FOR (p, 4) visit(n, p, load<F>(x + 16 * p));
    for (int p = 0; n + p < job.places; ++p) visit(n + p, 0, load<F>(x + 16 * p));
}

/// The sum over the places of a row, lane by lane, of what `value` makes of a vector.
ZO_INLINE F sum_of_places(const FloatRows& job, int row, int part, const auto& value) {
    F sums[4] = {};
    each_place(job, row, part, [&](int, int p, F x) { sums[p] += value(x); });
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// The sum over the places of a row, and the first lanes, of what `value` makes of a vector.
ZO_INLINE float sum_of_row(const FloatRows& job, int row, int samples, const auto& value) {
    float lanes[16], sum = 0;
    for (int part = 0; part < kParts; ++part)
        store(lanes + part * L, sum_of_places(job, row, part, value));
    for (int lane = 0; lane < samples; ++lane) sum += lanes[lane];
    return sum;
}

inline void row_moments_f32(const FloatRows& job, int samples, Moments* moments,
                            std::ptrdiff_t step) {
    for (int row = 0; row < job.rows; ++row, moments += step) {
        moments->sum = sum_of_row(job, row, samples, [](F x) { return x; });
        const F mean = splat(moments->sum / float(job.places * samples));
        moments->squares =
            sum_of_row(job, row, samples, [=](F x) { return (x - mean) * (x - mean); });
    }
}

inline void row_maxima_f32(const FloatRows& job, const float* scales, float* greatest) {
    for (int row = 0; row < job.rows; ++row) {
        const F sign = splat(scales && scales[row] < 0 ? -1.0f : 1.0f);
        for (int part = 0; part < kParts; ++part) {
            float* const at = greatest + 16 * row + part * L;
            const F before = load<F>(at);
            F best[4] = {before, before, before, before};
            each_place(job, row, part,
                       [&](int, int p, F x) { best[p] = maximum(best[p], x * sign); });
            store(at, maximum(maximum(best[0], best[1]), maximum(best[2], best[3])));
        }
    }
}

}  // namespace zo::ZO_ISA
