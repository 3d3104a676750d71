// How fast the machine multiplies when nothing else is done: the denominator of "percent of peak".
#pragma once

#include "dot.hpp"

namespace zo::ZO_ISA {

inline constexpr int kChains = kRegisters == 32 ? 16 : 12;  // more than latency times throughput

template <class Accumulator, class V>
ZO_INLINE long chains(long repeats, V a, V b, const auto& multiply_add) {
    Accumulator sum[kChains] = {};
    for (long i = 0; i < repeats; ++i)
        ZO_UNROLL for (int c = 0; c < kChains; ++c) {
            sum[c] = multiply_add(sum[c], a, b);
#if defined(__x86_64__)
            asm volatile("" : "+x"(sum[c]));
#elif defined(__aarch64__)
            asm volatile("" ::: "memory");
#endif
        }
    for (auto& s : sum) asm volatile("" ::"m"(s));
    return repeats * kChains;
}

/// Does so many rounds of multiplications; returns how many multiplications of numbers that were.
inline long peak_f32(long repeats) {
    return L * chains<F>(repeats, splat(1.0f), splat(0.5f),
                         [](F sum, F x, F w) __attribute__((always_inline)) { return sum + x * w; });
}
inline long peak_i8(long repeats) {
    return 4 * L * chains<Sum>(repeats, splat(0x01020304), splat(0x04030201),
                               [](Sum sum, I x, I w) __attribute__((always_inline)) { return dot(sum, x, w); });
}

}  // namespace zo::ZO_ISA
