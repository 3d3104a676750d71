// The sparse integer noise of ElasticZO-INT8, and moves of int8 weights along it.
#pragma once

#include "../kernels.hpp"
#include "words.hpp"

namespace zo::ZO_ISA {

/// z of repro.integer.noise for L counters.
ZO_INLINE I sparse_noise(U words, int r_max, int kept) {
    const I keep = (I(words & 0xFFFFu) - kept) >> 31;
    const I u = ((I(words) >> 16) * (2 * r_max + 1) + (1 << 15)) >> 16;
    return u & keep;
}

ZO_INLINE I clip(I w) { return minimum(maximum(w, splat(-127)), splat(127)); }

/// Calls visit(i, z) for vectors of z; the last one may reach beyond the end.
ZO_INLINE void each(const IntMove& move, const auto& visit) {
    const Key key(move.key);
    for (std::size_t i = 0; i < move.count; i += L)
        visit(i, sparse_noise(words(key, std::uint32_t(move.first + i)), move.r_max, move.kept));
}

/// The weights of lanes i, i + 1, ...; those from `count` on, perhaps another thread's, are zero.
ZO_INLINE I get(const std::int8_t* from, std::size_t i, std::size_t count) {
    B bytes{};
    if (i + L <= count)
        bytes = load<B>(from + i);
    else
        for (std::size_t lane = 0; i + lane < count; ++lane) bytes[lane] = from[i + lane];
    return __builtin_convertvector(bytes, I);
}

/// Stores the first count - i of the lanes.
ZO_INLINE void put(std::int8_t* to, std::size_t i, std::size_t count, I values) {
    const B bytes = __builtin_convertvector(values, B);
    if (i + L <= count) return store(to + i, bytes);
    for (std::size_t lane = 0; i + lane < count; ++lane) to[i + lane] = bytes[lane];
}

inline Moved move_i8(const IntMove& move) {
    I clipped{}, largest{};
    each(move, [&](std::size_t i, I z) {
        if (i + L > move.count) z = lanes() < std::int32_t(move.count - i) ? z : I{};
        const I moved = get(move.from, i, move.count) + z * move.factor;
        const I inside = clip(moved);
        clipped -= moved != inside;
        largest = maximum(largest, maximum(z, -z));
        put(move.to, i, move.count, inside);
    });
    return {total<std::size_t>(clipped), greatest(largest)};
}

/// P(a, k), without the clip, which |z| <= 127 never needs.
ZO_INLINE I pseudo_stochastic(I a, int k) {
    const I sign = a >> 31, magnitude = (a ^ sign) - sign;
    const int low_bits = k / 2;
    const I low = (magnitude & ((1 << low_bits) - 1)) << (k % 2);
    const I high = (magnitude & ((1 << k) - 1)) >> low_bits;
    const I rounded = (magnitude >> k) - (high > low);
    return (rounded ^ sign) - sign;
}

inline void descend_i8(const IntDescent& job) {
    const IntMove& move = job.move;
    each(move, [&](std::size_t i, I z) {
        I moved = clip(get(move.from, i, move.count) + z * move.factor);
        const I step = z * job.g;
        if (!job.vanishes) moved -= job.shift >= 1 ? pseudo_stochastic(step, job.shift) : step;
        put(move.to, i, move.count, clip(moved));
    });
}

}  // namespace zo::ZO_ISA
