// How fast the machine multiplies when nothing else is done: the denominator of "percent of peak".
#pragma once

#include "dot.hpp"

namespace zo::ZO_ISA {

/// Multiplies in ten independent chains, more than the latency of a multiplication times their
/// number in a cycle; returns how many vectors that were.
template <class Accumulator>
ZO_INLINE long chains(long rounds, const auto& multiply_add) {
    Accumulator a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};
    for (long round = 0; round < rounds; ++round) {
        a = multiply_add(a), b = multiply_add(b), c = multiply_add(c), d = multiply_add(d);
        e = multiply_add(e), f = multiply_add(f), g = multiply_add(g), h = multiply_add(h);
        i = multiply_add(i), j = multiply_add(j);
    }
    const Accumulator all[] = {a, b, c, d, e, f, g, h, i, j};
    asm volatile("" : : "m"(all));  // so that they are needed
    return rounds * 10;
}

/// An operand that the compiler knows nothing of.
template <class V>
ZO_INLINE V opaque(V v) {
    asm volatile("" : "+m"(v));
    return v;
}

/// Multiplies as fast as it can; returns how many multiplications of numbers that were.
inline long peak_f32(long rounds) {
    const F x = opaque(splat(1.0f)), w = opaque(splat(0.5f));
    return L * chains<F>(rounds, [&](F sum) __attribute__((always_inline)) { return sum + x * w; });
}
inline long peak_i8(long rounds) {
    const I x = opaque(splat(0x01020304)), w = opaque(splat(0x04030201));
    return 4 * L * chains<Sum>(rounds, [&](Sum sum) __attribute__((always_inline)) { return dot(sum, x, w); });
}

}  // namespace zo::ZO_ISA
