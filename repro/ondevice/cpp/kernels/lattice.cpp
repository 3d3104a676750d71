// Exact passes over 16-bit weights on a lattice (repro.methods.lattice), in float32.
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
ZO_INLINE F round(const LatticePass& pass, F x, F threshold) {
    const F size = magnitude(x);
    const F room = maximum(F(exponent(size)) * (2 * pass.ulp), splat(pass.bound));
    const U binade = exponent(size + room);  // 2^e, and 2^(1 - e) is what it lacks to 2^128
    const F spacing = F(binade) * pass.ulp, inverse = F(0x7F800000u - binade);
    const F steps = x * inverse * (0.5f / pass.ulp), below = floor(steps);
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
ZO_INLINE H moved(const LatticePass& pass, H weights, F z, const Uniform& uniform) {
    const F level =
        minimum(maximum(floor(z * pass.scale), splat(-pass.levels)), splat(pass.levels - 1.0f));
    const F noise = (level + 0.5f) * pass.step;
    const F theta = round(pass, Format::widen(weights) - noise * pass.before, splat(0.5f));
    const F sum = theta + noise * pass.after;
    return Format::narrow(pass.descends ? round(pass, sum, uniform()) : sum);
}

template <class Format>
ZO_INLINE void lattice_pass_half(const LatticePass& given, std::uint16_t* theta, const float* z,
                                 std::size_t count) {
    const LatticePass pass = given;
    const Key key(pass.key);
    if (pass.uniform)
        return change_halves(theta, z, count, [&](H weights, F noise, std::size_t i) {
            return moved<Format>(pass, weights, noise,
                                 [&] { return load_some(pass.uniform + i, count - i); });
        });
    change_halves(theta, z, count, [&](H weights, F noise, std::size_t i) {
        return moved<Format>(pass, weights, noise, [&] {
            const U word = words(key, pass.place + std::uint32_t(i));
            return __builtin_convertvector(I(word >> 8), F) * 0x1p-24f;
        });
    });
}

}  // namespace

void lattice_pass_bf16(const LatticePass& pass, std::uint16_t* theta, const float* z,
                       std::size_t count) {
    lattice_pass_half<Bfloat16>(pass, theta, z, count);
}

void lattice_pass_f16(const LatticePass& pass, std::uint16_t* theta, const float* z,
                      std::size_t count) {
    lattice_pass_half<Float16>(pass, theta, z, count);
}

}  // namespace zo::ZO_ISA
