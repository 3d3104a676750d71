// The 16-bit number formats, by operations on integers that every instruction set has.
//
// Sixteen-bit numbers are taken in pairs: the first of a pair is the lower half of a 32-bit lane.
#pragma once

#include <bit>

#include "../kernels.hpp"
#include "simd.hpp"

namespace zo::ZO_ISA {

static_assert(std::endian::native == std::endian::little);

/// Those of 2 L numbers that are first in their pairs, and those that are second.
struct Pair {
    F first, second;
};

/// Widens exactly; joins the nearest numbers, ties to even, overflow to infinity.
///
/// A NaN stays one if its last 16 bits are zero, as in sums of bfloat16 numbers with others.
class Bfloat16 {
   public:
    ZO_INLINE Pair widen(U pairs) const { return {F(pairs << 16), F(pairs & upper_)}; }
    ZO_INLINE U join(Pair x) const { return rounded(x.first) >> 16 | (rounded(x.second) & upper_); }

   private:
    ZO_INLINE U rounded(F x) const { return U(x) + half_ + ((U(x) >> 16) & one_); }

    const U upper_ = kept(0xFFFF0000u), half_ = kept(0x7FFFu), one_ = kept(1u);
};

struct Float16 {
    static ZO_INLINE Pair widen(U pairs) {
        return {widened(pairs & 0xFFFFu), widened(pairs >> 16)};
    }
    static ZO_INLINE U join(Pair x) { return narrowed(x.first) | narrowed(x.second) << 16; }

   private:
    static ZO_INLINE F widened(U bits) {
        const U normal = ((bits & 0x7FFFu) << 13) + (112u << 23);  // from bias 15 to 127
        // not by a subnormal float32, which a thread may take for zero
        const F subnormal = __builtin_convertvector(I(bits & 0x3FFu), F) * 0x1p-24f;
        const U finite = (bits & 0x7C00u) ? normal : U(subnormal);
        const U special = (bits & 0x7C00u) == 0x7C00u ? splat(0x7F800000u) : U{};
        return F(finite | special | (bits & 0x8000u) << 16);
    }

    static ZO_INLINE U narrowed(F x) {
        const U bits = U(x) & 0x7FFFFFFFu, sign = (U(x) & 0x80000000u) >> 16;
        const U even = (bits >> 13) & 1u;
        const U normal = (bits - (112u << 23) + 0xFFFu + even) >> 13;
        // adding 2^-1 rounds the bits below 2^-24, the spacing of subnormal numbers, away
        const U subnormal = U(F(bits) + 0.5f) - 0x3F000000u;
        U result = bits < (113u << 23) ? subnormal : normal;
        result = bits < (143u << 23) ? result : splat(0x7C00u);  // 2^16
        result = bits > 0x7F800000u ? splat(0x7E00u) : result;
        return result | sign;
    }
};

/// The next 2 L numbers; zeros where fewer are left.
ZO_INLINE Pair load_pairs(const float* from, std::size_t left) {
    float some[2 * L] = {};
    if (left < 2 * L) {
        for (std::size_t k = 0; k < left; ++k) some[k] = from[k];
        from = some;
    }
    const F a = load<F>(from), b = load<F>(from + L);
    return {evens(a, b), odds(a, b)};
}

/// Replaces the next 2 L weights, or those that are left, by change(weights).
template <class Format, class Change>
ZO_INLINE void change_pairs(const Format& format, std::uint16_t* theta, std::size_t left,
                            const Change& change) {
    const auto changed = [&](const std::uint16_t* weights) {
        return format.join(change(format.widen(load<U>(weights))));
    };
    if (left >= 2 * L) return store(theta, changed(theta));
    std::uint16_t some[2 * L] = {};
    for (std::size_t k = 0; k < left; ++k) some[k] = theta[k];
    store(some, changed(some));
    for (std::size_t k = 0; k < left; ++k) theta[k] = some[k];
}

/// Calls step(i, left) for every 2 L of `count` numbers.
template <class Step>
ZO_INLINE void for_each_pairs(std::size_t count, const Step& step) {
    std::size_t i = 0;
    for (; i + 2 * L <= count; i += 2 * L) step(i, std::size_t(2 * L));
    if (i < count) step(i, count - i);
}

}  // namespace zo::ZO_ISA
