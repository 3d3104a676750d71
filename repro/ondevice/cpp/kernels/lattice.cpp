// Exact walks of 16-bit weights on a lattice (repro.methods.lattice), in float32.
//
// Compiled without contraction, as gaussian.cpp.
#include "lattice.hpp"

#include "half.hpp"
#include "words.hpp"

namespace zo::ZO_ISA {
namespace {

ZO_INLINE F magnitude(F x) { return F(U(x) & 0x7FFFFFFFu); }
ZO_INLINE U exponent(F x) { return U(x) & 0x7F800000u; }

ZO_INLINE F floor(F x) {
#if defined(__AVX512F__)
    return F(_mm512_floor_ps(__m512(x)));
#elif defined(__AVX2__)
    return F(_mm256_floor_ps(__m256(x)));
#elif defined(__aarch64__)
    return F(vrndmq_f32(float32x4_t(x)));
#else  // for |x| < 2^31
    const F truncated = __builtin_convertvector(__builtin_convertvector(x, I), F);
    return truncated - (truncated > x ? splat(1.0f) : F{});
#endif
}

/// The lattice point below x, or the next if x is further above it than a fraction of the spacing.
ZO_INLINE F round(const LatticeWalk& walk, F x, F threshold) {
    const F size = magnitude(x);
    const F room = maximum(F(exponent(size)) * (2 * walk.ulp), splat(walk.bound));
    const U binade = exponent(size + room);  // 2^e, and 2^(1 - e) is what it lacks to 2^128
    const F spacing = F(binade) * walk.ulp, inverse = F(0x7F800000u - binade);
    const F steps = x * inverse * (0.5f / walk.ulp), below = floor(steps);
    return (below + (steps - below > threshold ? splat(1.0f) : F{})) * spacing;
}

/// The next numbers, of which there are so many.
ZO_INLINE F load_some(const float* from, std::size_t count) {
    if (count >= L) return load<F>(from);
    F some{};
    for (std::size_t lane = 0; lane < count; ++lane) some[lane] = from[lane];
    return some;
}

template <class Format, class Uniform>
ZO_INLINE H moved(const LatticeWalk& walk, H weights, F z, const Uniform& uniform) {
    const F level =
        minimum(maximum(floor(z * walk.scale), splat(-walk.levels)), splat(walk.levels - 1.0f));
    const F noise = (level + 0.5f) * walk.step;
    const F theta = round(walk, Format::widen(weights) - noise * walk.before, splat(0.5f));
    const F sum = theta + noise * walk.after;
    return Format::narrow(walk.descends ? round(walk, sum, uniform()) : sum);
}

template <class Format>
ZO_INLINE void walk_half(const LatticeWalk& given, std::uint16_t* theta, const float* z,
                         std::size_t count) {
    const LatticeWalk walk = given;
    const Key key(walk.key);
    if (walk.uniform)
        return change_halves(theta, z, count, [&](H weights, F noise, std::size_t i) {
            return moved<Format>(walk, weights, noise,
                                 [&] { return load_some(walk.uniform + i, count - i); });
        });
    change_halves(theta, z, count, [&](H weights, F noise, std::size_t i) {
        return moved<Format>(walk, weights, noise, [&] {
            const U word = words(key, walk.place + std::uint32_t(i));
            return __builtin_convertvector(I(word >> 8), F) * 0x1p-24f;
        });
    });
}

}  // namespace

void walk_bf16(const LatticeWalk& walk, std::uint16_t* theta, const float* z, std::size_t count) {
    walk_half<Bfloat16>(walk, theta, z, count);
}

void walk_f16(const LatticeWalk& walk, std::uint16_t* theta, const float* z, std::size_t count) {
    walk_half<Float16>(walk, theta, z, count);
}

}  // namespace zo::ZO_ISA
