// The sparse integer noise of ElasticZO-INT8, and moves of int8 weights along it.
#pragma once

#include "../kernels.hpp"
#include "words.hpp"

namespace zo::ZO_ISA {

inline constexpr int kWide = 2 * L;  // lanes of 16 bits, in which no sum of weights and noise wraps

/// `count` bytes from p on, widened; missing ones are zero.
ZO_INLINE W get(const std::int8_t* p, std::size_t count) {
    B2 bytes{};
    if (count >= kWide)
        bytes = load<B2>(p);
    else
        for (std::size_t lane = 0; lane < count; ++lane) bytes[lane] = p[lane];
#if defined(__AVX512BW__)
    return W(_mm512_cvtepi8_epi16(__m256i(bytes)));  // GCC 12 makes four instructions of the other
#else
    return __builtin_convertvector(bytes, W);
#endif
}

/// Stores the first `count` lanes as bytes.
ZO_INLINE void put(std::int8_t* p, std::size_t count, W values) {
    const B2 bytes = __builtin_convertvector(values, B2);
    if (count >= kWide) return store(p, bytes);
    for (std::size_t lane = 0; lane < count; ++lane) p[lane] = bytes[lane];
}

/// z of repro.integer.noise for L counters.
ZO_INLINE I sparse_noise(U words, int r_max, int kept) {
    const I keep = (I(words & 0xFFFFu) - kept) >> 31;
    const I u = ((I(words) >> 16) * (2 * r_max + 1) + (1 << 15)) >> 16;
    return u & keep;
}

inline int noise_i8(const IntNoise& noise, std::size_t first, std::size_t count, std::int8_t* z) {
    const Key key(noise.key);
    const int r_max = noise.r_max,
              kept = noise.kept;  // a store of bytes might change them in `noise`
    I largest{};
    for (std::size_t i = 0; i < count; i += L) {
        I values = sparse_noise(words(key, std::uint32_t(first + i)), r_max, kept);
        const std::size_t left = count - i;
        if (left < L) values = lanes() < std::int32_t(left) ? values : I{};
        largest = maximum(largest, maximum(values, -values));
        const B bytes = __builtin_convertvector(values, B);
        if (left >= L)
            store(z + i, bytes);
        else
            for (std::size_t lane = 0; lane < left; ++lane) z[i + lane] = bytes[lane];
    }
    return greatest(largest);
}

ZO_INLINE W clip(W w) { return minimum(maximum(w, W{} - 127), W{} + 127); }

inline std::size_t move_i8(const IntMove& given) {
    const IntMove move = given;
    const W factor = W{} + std::int16_t(move.factor);
    std::size_t all = 0;
    constexpr std::size_t kBurst = kWide << 14;  // a lane counts to 2^14
    for (std::size_t begin = 0; begin < move.count; begin += kBurst) {
        const std::size_t end = move.count - begin < kBurst ? move.count : begin + kBurst;
        W clipped{};
        for (std::size_t i = begin; i < end; i += kWide) {
            const W moved = get(move.from + i, end - i) + get(move.z + i, end - i) * factor;
            const W inside = clip(moved);
            clipped -= moved != inside;
            put(move.to + i, end - i, inside);
        }
        for (int lane = 0; lane < kWide; ++lane) all += std::size_t(clipped[lane]);
    }
    return all;
}

/// P(a, k), without the clip, which |z| <= 127 never needs.
ZO_INLINE W pseudo_stochastic(W a, int k) {
    const W sign = a >> 15, magnitude = (a ^ sign) - sign;
    const int low_bits = k / 2;
    const std::int16_t low_mask = std::int16_t((1 << low_bits) - 1),
                       mask = std::int16_t((1 << k) - 1);
    const W low = (magnitude & low_mask) << (k % 2), high = (magnitude & mask) >> low_bits;
    const W rounded = (magnitude >> k) - (high > low);
    return (rounded ^ sign) - sign;
}

inline void descend_i8(const IntDescent& given) {
    const IntDescent job = given;
    const IntMove move = job.move;
    const W factor = W{} + std::int16_t(move.factor), g = W{} + std::int16_t(job.g);
    for (std::size_t i = 0; i < move.count; i += kWide) {
        const W z = get(move.z + i, move.count - i);
        const W moved = clip(get(move.from + i, move.count - i) + z * factor);
        W step = z * g;
        if (job.shift >= 1) step = pseudo_stochastic(step, job.shift);
        put(move.to + i, move.count - i, clip(moved - (job.vanishes ? W{} : step)));
    }
}

}  // namespace zo::ZO_ISA
