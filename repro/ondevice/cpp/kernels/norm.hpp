// Sums of a channel for batch norm, forward and backward.
#pragma once

#include "../kernels.hpp"
#include "simd.hpp"

namespace zo::ZO_ISA {

inline void moments_f32(const float* x, int vectors, float center, float* sums) {
    for (int part = 0; part < kParts; ++part) {
        F sum{}, squares{};
        for (int i = 0; i < vectors; ++i) {
            const F d = load<F>(x + 16 * std::ptrdiff_t(i) + part * L) - center;
            sum += d;
            squares += d * d;
        }
        store(sums + part * L, sum);
        store(sums + 16 + part * L, squares);
    }
}

/// Calls visit(x, where e is) for every vector of a part.
ZO_INLINE void each(const FloatChannel& job, int part, const auto& visit) {
    const float* x = job.x + part * L;
    for (int r = 0; r < job.rows; ++r)
        for (int c = 0; c < job.columns; ++c, x += 16)
            visit(load<F>(x), job.e + r * job.e_row + 16 * std::ptrdiff_t(c) + part * L);
}

inline void error_moments_f32(const FloatChannel& job, float center, float* sums) {
    for (int part = 0; part < kParts; ++part) {
        F sum{}, products{};
        each(job, part, [&](F x, const float* at) {
            const F e = load<F>(at);
            sum += e;
            products += e * (x - center);
        });
        store(sums + part * L, sum);
        store(sums + 16 + part * L, products);
    }
}

inline void mix_f32(const FloatChannel& job, float a, float b, float c, int lanes) {
    for (int part = 0; part < kParts; ++part) {
        const I inside = ZO_ISA::lanes() + part * L < lanes;
        each(job, part,
             [&](F x, float* at) { store(at, F(inside & I(load<F>(at) * a + x * b + c))); });
    }
}

}  // namespace zo::ZO_ISA
