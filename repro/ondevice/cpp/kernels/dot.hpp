// Four int8 products added to each lane of int32, exactly, by what the instruction set has for it.
#pragma once

#include "simd.hpp"

namespace zo::ZO_ISA {

// x86 multiplies unsigned by signed, so signed inputs come with 128 added (see unsigned_inputs).
// The other forms take both operands signed.

#if defined(__AVX512VNNI__)

inline constexpr bool kUnsigned = true;
typedef I Sum;
ZO_INLINE Sum dot(Sum sum, I x, I w) {
    // As an instruction, not an intrinsic: GCC 12 copies the accumulators of the latter to and fro.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
}
ZO_INLINE Sum begin(std::int32_t initial) { return splat(initial); }
ZO_INLINE I finish(Sum sum) { return sum; }

#elif defined(__AVXVNNI__)

inline constexpr bool kUnsigned = true;
typedef I Sum;
ZO_INLINE Sum dot(Sum sum, I x, I w) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
    return sum;
}
ZO_INLINE Sum begin(std::int32_t initial) { return splat(initial); }
ZO_INLINE I finish(Sum sum) { return sum; }

#elif defined(__SSE2__)

inline constexpr bool kUnsigned = false;
typedef I Sum;
ZO_INLINE I pairs(W x, W w) {
#if defined(__AVX512BW__)
    return I(_mm512_madd_epi16(__m512i(x), __m512i(w)));
#elif defined(__AVX2__)
    return I(_mm256_madd_epi16(__m256i(x), __m256i(w)));
#else
    return I(_mm_madd_epi16(__m128i(x), __m128i(w)));
#endif
}
ZO_INLINE Sum dot(Sum sum, I x, I w) {
    const W x_even = (W(x) << 8) >> 8, w_even = (W(w) << 8) >> 8;
    return sum + pairs(x_even, w_even) + pairs(W(x) >> 8, W(w) >> 8);
}
ZO_INLINE Sum begin(std::int32_t initial) { return splat(initial); }
ZO_INLINE I finish(Sum sum) { return sum; }

#elif defined(__ARM_FEATURE_DOTPROD)

inline constexpr bool kUnsigned = false;
typedef I Sum;
ZO_INLINE Sum dot(Sum sum, I x, I w) { return I(vdotq_s32(sum, int8x16_t(x), int8x16_t(w))); }
ZO_INLINE Sum begin(std::int32_t initial) { return splat(initial); }
ZO_INLINE I finish(Sum sum) { return sum; }

#elif defined(__aarch64__)

inline constexpr bool kUnsigned = false;
struct Sum {  // halves of four products are kept apart until the end
    int32x4_t low, high;
};
ZO_INLINE Sum dot(Sum sum, I x, I w) {
    const int8x16_t a = int8x16_t(x), b = int8x16_t(w);
    return {vpadalq_s16(sum.low, vmull_s8(vget_low_s8(a), vget_low_s8(b))),
            vpadalq_s16(sum.high, vmull_high_s8(a, b))};
}
ZO_INLINE Sum begin(std::int32_t initial) {
    const int32x4_t first_of_each = {initial, 0, initial, 0};
    return {first_of_each, first_of_each};
}
ZO_INLINE I finish(Sum sum) { return I(vpaddq_s32(sum.low, sum.high)); }

#else

inline constexpr bool kUnsigned = false;
typedef I Sum;
ZO_INLINE Sum dot(Sum sum, I x, I w) {
    for (int byte = 0; byte < 4; ++byte)
        sum += ((x << (24 - 8 * byte)) >> 24) * ((w << (24 - 8 * byte)) >> 24);
    return sum;
}
ZO_INLINE Sum begin(std::int32_t initial) { return splat(initial); }
ZO_INLINE I finish(Sum sum) { return sum; }

#endif

}  // namespace zo::ZO_ISA
