// How fast the machine multiplies when nothing else is done: the denominator of "percent of peak".
#pragma once

#include "dot.hpp"
#include "tiles.hpp"

namespace zo::ZO_ISA {

/// Multiplies in ten independent chains, more than the latency of a multiplication times their
/// number in a cycle; returns how many vectors that were.
template <class Accumulator, class V>
ZO_INLINE long chains(long rounds, V x, V w, const auto& add) {
    Accumulator a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};
    const auto next = [&](Accumulator sum) __attribute__((always_inline)) {
        forget(x);  // or one product would do for all
        return add(sum, x, w);
    };
    for (long round = 0; round < rounds; ++round) {
        a = next(a), b = next(b), c = next(c), d = next(d), e = next(e);
        f = next(f), g = next(g), h = next(h), i = next(i), j = next(j);
    }
    const Accumulator all[] = {a, b, c, d, e, f, g, h, i, j};
    asm volatile("" : : "m"(all));  // so that they are needed
    return rounds * 10;
}

/// Multiplies as fast as it can; returns how many multiplications of numbers that were.
inline long peak_f32(long rounds) {
    return L * chains<F>(rounds, splat(1.0f), splat(0.5f),
                         [](F sum, F x, F w)
                             __attribute__((always_inline)) { return sum + x * w; });
}
#if defined(__AMX_INT8__)
inline long peak_i8(long rounds) {
    shape_tiles(kTileRows, kTileRows);
    for (long round = 0; round < rounds; ++round) {
        _tile_dpbsud(0, 4, 5);
        _tile_dpbsud(1, 4, 5);
        _tile_dpbsud(2, 4, 5);
        _tile_dpbsud(3, 4, 5);
    }
    _tile_release();
    return rounds * 4 * kTileRows * L * kTileBytes;
}
#else
inline long peak_i8(long rounds) {
    return 4 * L *
           chains<Sum>(rounds, splat(0x01020304), splat(0x04030201),
                       [](Sum sum, I x, I w)
                           __attribute__((always_inline)) { return dot(sum, x, w); });
}
#endif

}  // namespace zo::ZO_ISA
