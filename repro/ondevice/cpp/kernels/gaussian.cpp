// Standard normal noise, low-rank noise and moves of float weights along them.
//
// Compiled without contraction of multiplications and additions, so that z and the weights are the
// same bits on every machine: only operations are used that IEEE 754 rounds correctly.
#include "gaussian.hpp"

#include "words.hpp"

namespace zo::ZO_ISA {
namespace {

/// log(x) for normal x > 0, to 2 units in the last place: x = 2^e m, m in [sqrt(1/2), sqrt(2)),
/// and the series of 2 atanh(s), s = (m - 1) / (m + 1).
ZO_INLINE F log(F x) {
    const I bits = I(x) - 0x3F3504F3;  // sqrt(1/2)
    const I exponent = bits >> 23;
    const F m = F((bits & 0x7FFFFF) + 0x3F3504F3);
    const F s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
    F series = splat(1.0f / 9) * s2 + 1.0f / 7;
    series = series * s2 + 1.0f / 5;
    series = series * s2 + 1.0f / 3;
    series = series * s2 + 1.0f;
    return __builtin_convertvector(exponent, F) * 0.693147181f + (s + s) * series;
}

ZO_INLINE F root(F x) {
#if defined(__AVX512F__)
    return F(_mm512_sqrt_ps(__m512(x)));
#elif defined(__AVX2__)
    return F(_mm256_sqrt_ps(__m256(x)));
#elif defined(__SSE2__)
    return F(_mm_sqrt_ps(__m128(x)));
#elif defined(__aarch64__)
    return F(vsqrtq_f32(float32x4_t(x)));
#else
    F result;
    for (int i = 0; i < L; ++i) result[i] = __builtin_sqrtf(x[i]);
    return result;
#endif
}

/// cos and sin of 2 pi w / 2^32: the octant by its top bits, then Taylor series up to pi / 4.
ZO_INLINE void circle(U w, F& cosine, F& sine) {
    const U quarter = (w + 0x20000000u) >> 30;
    const I rest = I(w - (quarter << 30));  // from -2^29 to 2^29 - 1, that is -pi/4 to pi/4
    const F a = __builtin_convertvector(rest, F) * 1.46291808e-9f, a2 = a * a;  // 2 pi / 2^32
    F s = splat(-1.0f / 5040) * a2 + 1.0f / 120;
    s = s * a2 - 1.0f / 6;
    s = a + (s * a2) * a;
    F c = splat(1.0f / 40320) * a2 - 1.0f / 720;
    c = c * a2 + 1.0f / 24;
    c = c * a2 - 0.5f;
    c = c * a2 + 1.0f;
    const I odd = -I(quarter & 1u);
    const I cosine_sign = I(((quarter + 1u) & 2u) << 30), sine_sign = I((quarter & 2u) << 30);
    cosine = F(I(odd ? s : c) ^ cosine_sign);
    sine = F(I(odd ? c : s) ^ sine_sign);
}

/// z[first .. first + 32) by Box and Muller (1958), from the words of the same numbers: the first
/// sixteen give radii, the others angles; the first sixteen z are the cosines.
ZO_INLINE void block(Key key, std::uint32_t first, F (&z)[2 * kParts]) {
    for (int part = 0; part < kParts; ++part) {
        const U radius = words(key, first + part * L), angle = words(key, first + 16 + part * L);
        // 24 bits and a half, rounded to float32: from 2^-25 to 1, never 0
        const F u = (__builtin_convertvector(I(radius >> 8), F) + 0.5f) * 5.9604645e-8f;
        const F r = root(log(u) * -2.0f);
        F cosine, sine;
        circle(angle, cosine, sine);
        z[part] = r * cosine;
        z[kParts + part] = r * sine;
    }
}

}  // namespace

template <class Format>
void move_half(std::uint16_t* theta, const float* z, std::size_t count, float factor) {
    const Format format;
    for_each_pairs(count, [&](std::size_t i, std::size_t left) {
        const Pair noise = load_pairs(z + i, left);
        change_pairs(format, theta + i, left, [&](Pair weights) -> Pair {
            return {weights.first + noise.first * factor, weights.second + noise.second * factor};
        });
    });
}

void gaussian_f32(std::uint64_t key, std::size_t first, std::size_t count, float* z) {
    const Key halves(key);
    for (std::size_t i = 0; i < count; i += 32) {
        F values[2 * kParts];
        block(halves, std::uint32_t(first + i), values);
        if (i + 32 <= count) {
            for (int part = 0; part < 2 * kParts; ++part) store(z + i + part * L, values[part]);
        } else {
            for (std::size_t lane = 0; i + lane < count; ++lane)
                z[i + lane] = values[lane / L][lane % L];
        }
    }
}

void product_f32(const float* left, const float* right, std::size_t step, std::size_t rank,
                 std::size_t count, float* z) {
    std::size_t i = 0;
    for (; i + L <= count; i += L) {
        F sum = load<F>(right + i) * left[0];
        for (std::size_t k = 1; k < rank; ++k) sum += load<F>(right + k * step + i) * left[k];
        store(z + i, sum);
    }
    for (; i < count; ++i) {
        z[i] = right[i] * left[0];
        for (std::size_t k = 1; k < rank; ++k) z[i] += right[k * step + i] * left[k];
    }
}

void move_f32(float* theta, const float* z, std::size_t count, float factor) {
    std::size_t i = 0;
    for (; i + L <= count; i += L) store(theta + i, load<F>(theta + i) + load<F>(z + i) * factor);
    for (; i < count; ++i) theta[i] += z[i] * factor;
}

template void move_half<Bfloat16>(std::uint16_t*, const float*, std::size_t, float);
template void move_half<Float16>(std::uint16_t*, const float*, std::size_t, float);

}  // namespace zo::ZO_ISA
