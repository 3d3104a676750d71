// One sample at a time: int8 sums without a layout of their own.
#pragma once

#include "../kernels.hpp"
#include "simd.hpp"

namespace zo::ZO_ISA {

ZO_INLINE I widened(const std::int8_t* x) { return __builtin_convertvector(load<B>(x), I); }

/// Places of a row are the lanes; those whose input lies in the padding are masked out.
template <int N>
ZO_INLINE void planes(const IntPlanes& job) {
    const int taps = job.channels * job.kernel_height * job.kernel_width;
    for (int y = 0; y < job.rows; ++y)
        for (int first = 0; first < job.columns; first += L) {
            I sums[N] = {};
            const std::int8_t* w = job.w;
            for (int c = 0; c < job.channels; ++c)
                for (int ky = 0; ky < job.kernel_height; ++ky, w += job.kernel_width) {
                    const int row = y + ky - job.padding;
                    if (row < 0 || row >= job.height) continue;
                    const std::int8_t* const x =
                        job.x + (std::ptrdiff_t(c) * job.height + row) * job.width;
                    for (int kx = 0; kx < job.kernel_width; ++kx) {
                        const int at = first + kx - job.padding;
                        if (at <= -L || at >= job.width) continue;
                        const I inside = U(lanes() + at) < U{} + unsigned(job.width),
                                value = widened(x + at) & inside;
                        ZO_FOR (o, N)
                            sums[o] += value * splat(int(w[std::ptrdiff_t(o) * taps + kx]));
                    }
                }
            ZO_FOR (o, N) {
                std::int32_t all[L];
                store(all, sums[o]);
                std::int32_t* const to =
                    job.y + (std::ptrdiff_t(o) * job.rows + y) * job.columns + first;
                for (int i = 0; i < L && first + i < job.columns; ++i) to[i] = all[i];
            }
        }
}

inline void planes_i8(const IntPlanes& given) {
    const IntPlanes job = given;
    if (job.outputs == 4) return planes<4>(job);
    if (job.outputs == 3) return planes<3>(job);
    if (job.outputs == 2) return planes<2>(job);
    planes<1>(job);
}

inline std::int32_t dot_i8(const std::int8_t* a, const std::int8_t* b, std::size_t count) {
    I sums[2] = {};
    std::size_t i = 0;
    for (; i + 2 * L <= count; i += 2 * L)
        ZO_FOR (part, 2) sums[part] += widened(a + i + part * L) * widened(b + i + part * L);
    std::int32_t all[L], sum = 0;
    store(all, sums[0] + sums[1]);
    ZO_FOR (lane, L) sum += all[lane];
    for (; i < count; ++i) sum += a[i] * b[i];
    return sum;
}

inline void add_i8(std::int32_t* y, std::int32_t w, const std::int8_t* x, std::size_t count) {
    std::size_t i = 0;
    for (; i + L <= count; i += L) store(y + i, load<I>(y + i) + widened(x + i) * splat(w));
    for (; i < count; ++i) y[i] += w * x[i];
}

}  // namespace zo::ZO_ISA
