// The 16-bit number formats, by operations on integers that every instruction set has.
#pragma once

#include "simd.hpp"

namespace zo::ZO_ISA {

/// Widens exactly; narrows to the nearest, ties to even, overflow to infinity. A NaN stays one.
struct Bfloat16 {
    static ZO_INLINE F widen(H x) { return F(__builtin_convertvector(x, U) << 16); }

    static ZO_INLINE H narrow(F x) {
        const U bits = U(x), even = (bits >> 16) & 1u;
        const U rounded = (bits + 0x7FFFu + even) >> 16;
        const U quiet = (bits >> 16) | 0x40u;
        return __builtin_convertvector((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded, H);
    }
};

struct Float16 {
    static ZO_INLINE F widen(H x) {
        const U bits = __builtin_convertvector(x, U);
        const F scaled = F((bits & 0x7FFFu) << 13) * 0x1p112f;  // from bias 15 to 127
        const U special = (bits & 0x7C00u) == 0x7C00u ? splat(0x7F800000u) : U{};
        return F(U(scaled) | special | (bits & 0x8000u) << 16);
    }

    static ZO_INLINE H narrow(F x) {
        const U bits = U(x) & 0x7FFFFFFFu, sign = (U(x) & 0x80000000u) >> 16;
        const U even = (bits >> 13) & 1u;
        const U normal = (bits - (112u << 23) + 0xFFFu + even) >> 13;
        // adding 2^-1 rounds the bits below 2^-24, the spacing of subnormal numbers, away
        const U subnormal = U(F(bits) + 0.5f) - 0x3F000000u;
        U result = bits < (113u << 23) ? subnormal : normal;
        result = bits < (143u << 23) ? result : splat(0x7C00u);  // 2^16
        result = bits > 0x7F800000u ? splat(0x7E00u) : result;
        return __builtin_convertvector(result | sign, H);
    }
};

/// Replaces weights by change(weights, noise, i), i that of the first; the last vector is filled
/// up.
template <class Change>
ZO_INLINE void change_halves(std::uint16_t* theta, const float* z, std::size_t count,
                             const Change& change) {
    std::size_t i = 0;
    for (; i + L <= count; i += L) store(theta + i, change(load<H>(theta + i), load<F>(z + i), i));
    if (i == count) return;
    H last{};
    F noise{};
    for (std::size_t lane = 0; i + lane < count; ++lane) {
        last[lane] = theta[i + lane];
        noise[lane] = z[i + lane];
    }
    last = change(last, noise, i);
    for (std::size_t lane = 0; i + lane < count; ++lane) theta[i + lane] = last[lane];
}

}  // namespace zo::ZO_ISA
