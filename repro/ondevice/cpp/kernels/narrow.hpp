// From accumulators to int8, and from int8 to the order in which dot products read it.
#pragma once

#include "../kernels.hpp"
#include "simd.hpp"

namespace zo::ZO_ISA {

/// N(a, k), halves away from zero, clipped; for k <= 0 the cast, in which 128 wraps.
ZO_INLINE I narrowed(I a, int k) {
    if (k <= 0) return (a << 24) >> 24;
    const I rounded = (((a + (a >> 31)) >> (k - 1)) + 1) >> 1;
    return minimum(maximum(rounded, splat(-127)), splat(127));
}

/// The maximum of each window of what `value` makes of a job's numbers, and which it is.
template <class V, class Job>
ZO_INLINE void pool(const Job& job, const auto& value, const auto& put) {
    const int columns = job.columns / job.pool_width;
    for (int r = 0; r < job.rows / job.pool_height; ++r)
        for (int c = 0; c < columns; ++c)
            for (int part = 0; part < kParts; ++part) {
                const auto* const corner =
                    job.x +
                    (std::ptrdiff_t(r) * job.pool_height * job.columns + c * job.pool_width) * 16 +
                    part * L;
                V best = value(load<V>(corner));
                I choice{};
                int n = 0;
                for (int i = 0; i < job.pool_height; ++i)
                    for (int j = 0; j < job.pool_width; ++j, ++n) {
                        const V next =
                            value(load<V>(corner + (std::ptrdiff_t(i) * job.columns + j) * 16));
                        choice = next > best ? splat(n) : choice;
                        best = greatest(next, best);
                    }
                if (job.rectified) {
                    choice = best > V{} ? choice : splat(kNone);
                    best = maximum(V{}, best);  // in this order NaN stays NaN
                }
                put(job.y + r * job.y_row + c * job.y_column + part * L, best);
                if (job.choices)
                    store(job.choices + (std::ptrdiff_t(r) * columns + c) * job.choice_step +
                              part * L,
                          __builtin_convertvector(choice, H));
            }
}

inline void narrow(const Narrow& job) {
    pool<I>(
        job, [&](I a) { return narrowed(a, job.shift); },
        [](std::int8_t* y, I best) { store(y, __builtin_convertvector(best, B)); });
}

/// N(max(a, 0), k) for k >= 1, in as few operations as can be.
ZO_INLINE I rectified_narrowed(I a, U half, int k) {
    return minimum(I((U(maximum(a, I{})) + half) >> k), splat(127));
}

/// Joins what `value` makes of the four numbers of each dword.
ZO_INLINE void pack(const Pack job, const auto& value) {
    const U flip = U{} + job.flip * 0x01010101u;
    for (int n = 0; n < job.count; ++n)
        for (int part = 0; part < kParts; ++part) {
            U four{};
            ZO_FOR (j, 4) {
                const std::int32_t source = job.sources[4 * n + j];
                if (source >= 0)
                    four |= value(load<I>(job.x + std::ptrdiff_t(source) * 16 + part * L))
                            << (8 * j);
            }
            store(job.y + 64 * std::ptrdiff_t(job.dwords[n]) + 4 * L * part, four ^ flip);
        }
}

inline void pack(const Pack& job) {
    const int k = job.shift;
    const bool rectified = job.rectified;
    const U half = U{} + (k > 0 ? 1u << (k - 1) : 0);
    if (rectified && k > 0)
        return pack(job, [=](I a) { return U(rectified_narrowed(a, half, k)); });
    pack(job, [=](I a) {
        const I value = narrowed(a, k);
        return U(rectified ? maximum(value, I{}) : value) & 0xFFu;
    });
}

inline void pool_f32(const FloatPool& job) {
    const auto put = [](float* y, F best) { store(y, best); };
    const F factor = splat(job.factor), summand = splat(job.summand);
    if (job.affine) return pool<F>(job, [=](F a) { return a * factor + summand; }, put);
    pool<F>(job, [](F a) { return a; }, put);
}

inline void interleave(const std::int8_t* rows, std::ptrdiff_t row_step,
                       const std::int32_t* sources, int dwords, std::uint8_t flip,
                       std::uint8_t* out) {
    typedef std::uint8_t Bytes __attribute__((vector_size(L)));
    for (int d = 0; d < dwords; ++d)
        for (int part = 0; part < kParts; ++part) {
            U four{};
            for (int j = 0; j < 4; ++j) {
                const std::int32_t source = sources[4 * d + j];
                if (source < 0) continue;
                const Bytes bytes = load<Bytes>(rows + source * row_step + part * L) ^ flip;
                four |= __builtin_convertvector(bytes, U) << (8 * j);
            }
            store(out + 64 * std::ptrdiff_t(d) + 4 * L * part, four);
        }
}

}  // namespace zo::ZO_ISA
