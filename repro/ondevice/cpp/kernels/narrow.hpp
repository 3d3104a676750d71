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

inline void narrow(const Narrow& job) {
    for (int r = 0; r < job.rows / job.pool_height; ++r)
        for (int c = 0; c < job.columns / job.pool_width; ++c)
            for (int part = 0; part < kParts; ++part) {
                const std::int32_t* corner =
                    job.x + (std::ptrdiff_t(r) * job.pool_height * job.columns + c * job.pool_width) * 16 +
                    part * L;
                I best = narrowed(load<I>(corner), job.shift), choice{};
                for (int n = 1; n < job.pool_height * job.pool_width; ++n) {
                    const int i = n / job.pool_width, j = n % job.pool_width;
                    const I value =
                        narrowed(load<I>(corner + (std::ptrdiff_t(i) * job.columns + j) * 16), job.shift);
                    choice = value > best ? splat(n) : choice;
                    best = maximum(best, value);
                }
                if (job.rectified) {
                    choice = best > 0 ? choice : splat(kNone);
                    best = maximum(best, I{});
                }
                store(job.y + r * job.y_row + c * job.y_column + part * L,
                      __builtin_convertvector(best, B));
                if (job.choices)
                    store(job.choices + (std::ptrdiff_t(r) * (job.columns / job.pool_width) + c) * job.choice_step + part * L,
                          __builtin_convertvector(choice, H));
            }
}

inline void interleave(const std::int8_t* rows, std::ptrdiff_t row_step, const std::int32_t* sources,
                       int dwords, std::uint8_t flip, std::uint8_t* out) {
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
