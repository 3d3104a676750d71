// Noise of random signs: a word has those of 32 numbers.
//
// Sixteen words give 512 numbers: bit b of word i, from the highest, is the sign of number 16 b +
// i.
#pragma once

#include "half.hpp"
#include "words.hpp"

namespace zo::ZO_ISA {

inline constexpr std::size_t kSignBlock = 512;

/// Positive and negative `size`, by the highest bits.
ZO_INLINE F signs_of(U bits, float size) {
#if defined(__AVX512F__)
    const __m512i sign = __m512i(splat(0x80000000u)), positive = __m512i(splat(size));
    return F(_mm512_ternarylogic_epi32(__m512i(bits), sign, positive, 0x6A));  // (a & b) ^ c
#else
    return F((bits & 0x80000000u) ^ U(splat(size)));
#endif
}

/// Calls step(i, left, first, second) for every 2 L of the numbers from `first` on, a multiple of
/// kSignBlock; the highest bits are the signs of those first in their pairs and those second.
template <class Step>
ZO_INLINE void for_each_signs(std::uint64_t key, std::size_t first, std::size_t count,
                              const Step& step) {
    constexpr int kBits = L == 16 ? 2 : 1;  // of a word, among the signs of 2 L numbers
    constexpr int kTurns = L < 8 ? 8 / L : 1;
    const Key halves(key);
    for (std::size_t begin = 0; begin < count; begin += kSignBlock) {
        const std::uint32_t place = std::uint32_t((first + begin) / 32);
        U firsts[kTurns], seconds[kTurns];
        ZO_FOR (turn, kTurns) {
            const U some = words(halves, place + 2 * turn * L);
            const U others = kBits == 2 ? some << 1 : words(halves, place + (2 * turn + 1) * L);
            firsts[turn] = evens(some, others);
            seconds[turn] = odds(some, others);
        }
        std::size_t left = count - begin < kSignBlock ? count - begin : kSignBlock, i = begin;
        while (left) {
            ZO_FOR (turn, kTurns) {
                if (left >= 2 * L) {
                    step(i, std::size_t(2 * L), firsts[turn], seconds[turn]);
                    left -= 2 * L;
                } else if (left) {
                    step(i, left, firsts[turn], seconds[turn]);
                    left = 0;
                }
                i += 2 * L;
                firsts[turn] <<= kBits;
                seconds[turn] <<= kBits;
            }
        }
    }
}

/// Writes z[first], ..., z[first + count - 1] to z[0], ...
inline void signs_f32(std::uint64_t key, std::size_t first, std::size_t count, float* z) {
    for_each_signs(key, first, count, [&](std::size_t i, std::size_t left, U firsts, U seconds) {
        const F one = signs_of(firsts, kSignMagnitude), other = signs_of(seconds, kSignMagnitude);
        float some[2 * L];
        float* const to = left < 2 * L ? some : z + i;
        store(to, low(one, other));
        store(to + L, high(one, other));
        if (left < 2 * L)
            for (std::size_t k = 0; k < left; ++k) z[i + k] = some[k];
    });
}

/// theta[i] += factor z[first + i], rounded as by move_half.
template <class Format>
inline void move_half_by_signs(std::uint16_t* theta, std::uint64_t key, std::size_t first,
                               std::size_t count, float factor) {
    const Format format;
    const float size = kSignMagnitude * factor;
    for_each_signs(key, first, count, [&](std::size_t i, std::size_t left, U firsts, U seconds) {
        change_pairs(format, theta + i, left, [&](Pair weights) -> Pair {
            return {weights.first + signs_of(firsts, size),
                    weights.second + signs_of(seconds, size)};
        });
    });
}

}  // namespace zo::ZO_ISA
