// The sparse integer noise of ElasticZO-INT8, and moves of int8 weights along it.
#pragma once

#include "../kernels.hpp"
#include "words.hpp"

namespace zo::ZO_ISA {

inline constexpr int kBytes = 4 * L;  // in a vector

/// `count` bytes from p on; missing ones are zero.
ZO_INLINE B4 get(const std::int8_t* p, std::size_t count) {
    if (count >= kBytes) return load<B4>(p);
    std::int8_t bytes[kBytes] = {};
    __builtin_memcpy(bytes, p, count);
    return load<B4>(bytes);
}

/// Stores the first `count` bytes.
ZO_INLINE void put(std::int8_t* p, std::size_t count, B4 values) {
    if (count >= kBytes) return store(p, values);
    std::int8_t bytes[kBytes];
    store(bytes, values);
    __builtin_memcpy(p, bytes, count);
}

/// floor((h factor + 2^15) / 2^16); |factor| < 2^15.
ZO_INLINE W scaled(W h, int factor) {
#if defined(__SSE2__)
#if defined(__AVX512BW__)
    const W high = W(_mm512_mulhi_epi16(__m512i(h), _mm512_set1_epi16(std::int16_t(factor))));
#elif defined(__AVX2__)
    const W high = W(_mm256_mulhi_epi16(__m256i(h), _mm256_set1_epi16(std::int16_t(factor))));
#else
    const W high = W(_mm_mulhi_epi16(__m128i(h), _mm_set1_epi16(std::int16_t(factor))));
#endif
    return high + W((UW(h) * std::uint16_t(factor)) >> 15);
#else
    const I even = ((I(h) << 16) >> 16) * factor + (1 << 15),
            odd = (I(h) >> 16) * factor + (1 << 15);
    return W((I(U(even) >> 16)) | (odd & I(splat(0xFFFF0000u))));
#endif
}

/// z of repro.integer.noise for 2 L counters from `first` on.
ZO_INLINE W sparse_noise(Key key, std::uint32_t first, int factor, std::uint16_t last_kept) {
    const U even = words(key, 2 * U(lanes()) + first), odd = words(key, 2 * U(lanes()) + first + 1);
    const UW low = UW((even & 0xFFFFu) | (odd << 16));
    const W high = W((even >> 16) | (odd & 0xFFFF0000u));
    return scaled(high, factor) & W(low <= last_kept);
}

inline int noise_i8(const IntNoise& noise, std::size_t first, std::size_t count, std::int8_t* z) {
    const Key key(noise.key);
    const int factor = 2 * noise.r_max + 1;
    const std::uint16_t last_kept = std::uint16_t(noise.kept - 1);  // kept may be 2^16
    constexpr std::size_t kValues = 2 * L;
    W largest{};
    const auto draw = [&](std::size_t i) {
        return sparse_noise(key, std::uint32_t(first + i), factor, last_kept);
    };
    std::size_t i = 0;
    for (; i + kValues <= count; i += kValues) {
        const W values = draw(i);
        largest = maximum(largest, maximum(values, -values));
        store(z + i, __builtin_convertvector(values, B2));
    }
    std::int16_t result = 0;
    ZO_FOR (lane, 2 * L) result = largest[lane] > result ? largest[lane] : result;
    if (i == count) return result;
    const W values = draw(i);
    for (int lane = 0; i < count; ++i, ++lane) {
        const std::int16_t value = values[lane], magnitude = value < 0 ? -value : value;
        result = magnitude > result ? magnitude : result;
        z[i] = std::int8_t(value);
    }
    return result;
}

/// a + b, from -128 to 127.
ZO_INLINE B4 saturated_sum(B4 a, B4 b) {
#if defined(__AVX512BW__)
    return B4(_mm512_adds_epi8(__m512i(a), __m512i(b)));
#elif defined(__AVX2__)
    return B4(_mm256_adds_epi8(__m256i(a), __m256i(b)));
#elif defined(__SSE2__)
    return B4(_mm_adds_epi8(__m128i(a), __m128i(b)));
#elif defined(__aarch64__)
    return B4(vqaddq_s8(int8x16_t(a), int8x16_t(b)));
#else
    const B4 sum = B4(UB4(a) + UB4(b));
    const B4 overflown = ((a ^ sum) & (b ^ sum)) < B4{};
    return overflown ? (a < B4{} ? B4{} + std::int8_t(-128) : B4{} + 127) : sum;
#endif
}

ZO_INLINE B4 clip(B4 w) { return maximum(w, B4{} - 127); }

/// clip(from + factor z) for a factor from -2 to 1; adds to `clipped` 1 in each lane that it
/// changes. A sum of three that leaves a byte is nowhere near another that is the clip of it.
template <int Factor>
ZO_INLINE B4 moved(B4 from, B4 z, UB4& clipped) {
    const B4 step = Factor < 0 ? -z : z;
    B4 inside = from;
    UB4 wrapped = UB4(from);
    ZO_FOR (n, Factor < 0 ? -Factor : Factor) {
        inside = saturated_sum(inside, step);
        wrapped += UB4(step);
    }
    inside = clip(inside);
    clipped -= UB4(UB4(inside) != wrapped);
    return inside;
}

/// The sum of all lanes.
ZO_INLINE std::size_t total(UB4 counts) {
    const UW pairs = (UW(counts) & 0xFFu) + (UW(counts) >> 8);
    const U fours = (U(pairs) & 0xFFFFu) + (U(pairs) >> 16);
    std::size_t sum = 0;
    for (int lane = 0; lane < L; ++lane) sum += fours[lane];
    return sum;
}

/// Calls each(at, count, clipped) for every vector; returns the total of what they counted.
template <class Each>
ZO_INLINE std::size_t for_each_vector(std::size_t count, const Each& each) {
    constexpr std::size_t kBurst = kBytes * 255;  // what a lane counts to
    std::size_t all = 0;
    for (std::size_t begin = 0; begin < count; begin += kBurst) {
        const std::size_t end = count - begin < kBurst ? count : begin + kBurst;
        UB4 clipped{};
        for (std::size_t i = begin; i < end; i += kBytes) each(i, end - i, clipped);
        all += total(clipped);
    }
    return all;
}

template <int Factor>
inline std::size_t move_by(const IntMove& given) {
    const IntMove move = given;
    return for_each_vector(move.count, [&](std::size_t i, std::size_t count, UB4& clipped) {
        put(move.to + i, count,
            moved<Factor>(get(move.from + i, count), get(move.z + i, count), clipped));
    });
}

inline std::size_t move_i8(const IntMove& move) {
    switch (move.factor) {
        case 1: return move_by<1>(move);
        case 0: return move_by<0>(move);
        case -1: return move_by<-1>(move);
        default: return move_by<-2>(move);
    }
}

/// Each byte shifted to the right.
ZO_INLINE UB4 shifted(UB4 bytes, int k) {
    const std::uint8_t mask = std::uint8_t(0xFF >> k);
    return UB4(UW(bytes) >> k) & mask;
}

/// P(m, k) of magnitudes up to 127, k >= 1, without the clip, which they never need.
ZO_INLINE UB4 pseudo_stochastic(UB4 m, int k) {
    const int low_bits = k / 2;
    const std::uint8_t low_mask = std::uint8_t((1 << low_bits) - 1),
                       high_mask = std::uint8_t((1 << (k - low_bits)) - 1);
    UB4 low = m & low_mask;
    if (k % 2) low += low;
    const UB4 high = shifted(m, low_bits) & high_mask;
    return shifted(m, k) - UB4(B4(high) > B4(low));
}

template <int Factor>
inline void descend_by(const IntDescent& given) {
    const IntDescent job = given;
    const IntMove move = job.move;
    for_each_vector(move.count, [&](std::size_t i, std::size_t count, UB4& clipped) {
        const B4 z = get(move.z + i, count);
        const B4 w = moved<Factor>(get(move.from + i, count), z, clipped);
        const B4 sinks = B4(job.g < 0 ? z < B4{} : z > B4{});
        UB4 step = UB4(maximum(z, -z));
        if (job.shift >= 1) step = pseudo_stochastic(step, job.shift);
        if (job.vanishes) step = UB4{};
        put(move.to + i, count, clip(saturated_sum(w, (B4(step) ^ sinks) - sinks)));
    });
}

inline void descend_i8(const IntDescent& job) {
    if (job.move.factor == 0) return descend_by<0>(job);
    descend_by<1>(job);
}

}  // namespace zo::ZO_ISA
