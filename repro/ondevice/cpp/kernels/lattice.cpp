// Exact passes over 16-bit weights on a lattice (repro.methods.lattice), in float32.
//
// Compiled without contraction, as gaussian.cpp.
#include "lattice.hpp"

#include <type_traits>

#include "half.hpp"
#include "signs.hpp"
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
#else
    const F truncated = __builtin_convertvector(__builtin_convertvector(x, I), F);
    const F below = truncated - (truncated > x ? splat(1.0f) : F{});
    return x > -0x1p23f && x < 0x1p23f ? below : x;  // the others are whole, infinite or NaN
#endif
}

/// 2^e for x in a binade of the lattice whose spacing is 2^e ulp.
ZO_INLINE U binade(const LatticePass& pass, F x) {
    const F room = maximum(F(exponent(x)) * (2 * pass.ulp), splat(pass.bound));
    return exponent(magnitude(x) + room);
}

/// The nearest lattice point, of two the even multiple of the spacing: such large numbers are all
/// even multiples of 3/2 2^23 spacings, whose last bit is a spacing.
ZO_INLINE F nearest(const LatticePass& pass, F x) {
    const F large = F(binade(pass, x)) * (pass.ulp * 0x1.8p23f);
    return (x + large) - large;
}

/// The lattice point below x, or the next if x is further above it than a fraction of the spacing.
ZO_INLINE F round(const LatticePass& pass, F x, F threshold) {
    const U power = binade(pass, x);
    const F spacing = F(power) * pass.ulp, inverse = F((254u << 23) + pass.significand - power);
    const F steps = x * inverse, below = floor(steps);
    return (below + (steps - below > threshold ? splat(1.0f) : F{})) * spacing;
}

/// eps z, rounded to the levels of noise.
ZO_INLINE F rounded(const LatticePass& pass, F z) {
    const F level = maximum(floor(z * pass.scale), splat(-pass.levels));
    return (minimum(level, splat(pass.levels - 1.0f)) + 0.5f) * pass.step;
}

/// What a pass does with the weights, in the order of its steps.
enum class Way { kPerturb, kMove, kUpdate };

/// Weights at theta are lattice points already, so a pass from there need not find them.
Way way_of(const LatticePass& pass) {
    if (pass.descends) return Way::kUpdate;
    return pass.before == 0 ? Way::kPerturb : Way::kMove;
}

/// The weights moved from theta + before eps z, and from there on; random() gives thresholds.
template <Way way, class Random>
ZO_INLINE Pair moved(const LatticePass& pass, Pair weights, Pair before, Pair after,
                     const Random& random) {
    if (way == Way::kPerturb) return {weights.first + after.first, weights.second + after.second};
    const F first = nearest(pass, weights.first - before.first) + after.first;
    const F second = nearest(pass, weights.second - before.second) + after.second;
    if (way == Way::kMove) return {first, second};
    const Pair thresholds = random();
    return {round(pass, first, thresholds.first), round(pass, second, thresholds.second)};
}

/// Calls run(way) with the way as a type, so that each has a loop of its own.
template <class Run>
ZO_INLINE void by_way(Way way, const Run& run) {
    if (way == Way::kPerturb)
        run(std::integral_constant<Way, Way::kPerturb>{});
    else if (way == Way::kMove)
        run(std::integral_constant<Way, Way::kMove>{});
    else
        run(std::integral_constant<Way, Way::kUpdate>{});
}

/// Numbers in [0, 1) that depend on the weights' places.
class Thresholds {
   public:
    ZO_INLINE explicit Thresholds(const LatticePass& pass)
        : key_(pass.key), places_(U(2 * lanes()) + pass.place + key_.low) {}

    ZO_INLINE Pair operator()(std::size_t i) const {
        const U places = places_ + std::uint32_t(i);
        return {fraction(places), fraction(places + one_)};
    }

   private:
    ZO_INLINE F fraction(U places) const {
        return __builtin_convertvector(I(words_at(key_, places, factors_) >> 8), F) * 0x1p-24f;
    }

    const Key key_;
    const U places_, one_ = kept(1u);
    const Factors factors_;
};

}  // namespace

template <class Format>
void lattice_pass(const LatticePass& given, std::uint16_t* theta, const float* z,
                  std::size_t count) {
    const LatticePass pass = given;
    const Thresholds thresholds(pass);
    const Format format;
    const auto run = [&](auto way, const auto& random) {
        for_each_pairs(count, [&](std::size_t i, std::size_t left) {
            const Pair drawn = load_pairs(z + i, left);
            const Pair noise = {rounded(pass, drawn.first), rounded(pass, drawn.second)};
            const Pair before = {noise.first * pass.before, noise.second * pass.before};
            const Pair after = {noise.first * pass.after, noise.second * pass.after};
            change_pairs(format, theta + i, left, [&](Pair weights) {
                return moved<way>(pass, weights, before, after, [&] { return random(i, left); });
            });
        });
    };
    by_way(way_of(pass), [&](auto way) {
        if (pass.uniform)
            run(way, [&](std::size_t i, std::size_t left) {
                return load_pairs(pass.uniform + i, left);
            });
        else
            run(way, [&](std::size_t i, std::size_t) { return thresholds(i); });
    });
}

template <class Format>
void lattice_pass_by_signs(const LatticePass& given, std::uint16_t* theta, std::uint64_t key,
                           std::size_t first, std::size_t count) {
    const LatticePass pass = given;
    const Thresholds thresholds(pass);
    const Format format;
    const float size = rounded(pass, splat(kSignMagnitude))[0];
    const float before = size * pass.before, after = size * pass.after;
    by_way(way_of(pass), [&](auto way) {
        for_each_signs(
            key, first, count, [&](std::size_t i, std::size_t left, U firsts, U seconds) {
                change_pairs(format, theta + i, left, [&](Pair weights) {
                    return moved<way>(pass, weights,
                                      {signs_of(firsts, before), signs_of(seconds, before)},
                                      {signs_of(firsts, after), signs_of(seconds, after)},
                                      [&] { return thresholds(i); });
                });
            });
    });
}

template void lattice_pass<Bfloat16>(const LatticePass&, std::uint16_t*, const float*, std::size_t);
template void lattice_pass<Float16>(const LatticePass&, std::uint16_t*, const float*, std::size_t);
template void lattice_pass_by_signs<Bfloat16>(const LatticePass&, std::uint16_t*, std::uint64_t,
                                              std::size_t, std::size_t);
template void lattice_pass_by_signs<Float16>(const LatticePass&, std::uint16_t*, std::uint64_t,
                                             std::size_t, std::size_t);

}  // namespace zo::ZO_ISA
