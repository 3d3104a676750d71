// Vectors of the instruction set that this translation unit is compiled for.
//
// Everything here is in a namespace of its own for each instruction set, and no inline function of
// the standard library is used: the linker keeps one copy of such a function, and a copy made for
// AVX-512 must not reach a machine without it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef ZO_ISA
#error "compile with -DZO_ISA=<name>"
#endif

#define ZO_INLINE inline __attribute__((always_inline))
/// A loop that is unrolled, so that what it indexes can stay in registers.
#define ZO_FOR(i, count) _Pragma("GCC unroll 24") for (int i = 0; i < (count); ++i)

namespace zo::ZO_ISA {

#if defined(__AVX512F__)
inline constexpr int L = 16;  // lanes of 32 bits
inline constexpr int kRegisters = 32;
#elif defined(__AVX2__)
inline constexpr int L = 8;
inline constexpr int kRegisters = 16;
#elif defined(__aarch64__)
inline constexpr int L = 4;
inline constexpr int kRegisters = 32;
#else
inline constexpr int L = 4;
inline constexpr int kRegisters = 16;
#endif
inline constexpr int kParts = 16 / L;  // vectors in a group of samples

typedef float F __attribute__((vector_size(4 * L)));
typedef std::int32_t I __attribute__((vector_size(4 * L)));
typedef std::uint32_t U __attribute__((vector_size(4 * L)));
typedef std::int16_t W __attribute__((vector_size(4 * L)));  // twice the lanes, half as wide
typedef std::uint16_t UW __attribute__((vector_size(4 * L)));
typedef std::int8_t B4 __attribute__((vector_size(4 * L)));  // four times the lanes
typedef std::uint8_t UB4 __attribute__((vector_size(4 * L)));
typedef std::int8_t B __attribute__((vector_size(L)));       // one byte for each lane of I
typedef std::int8_t B2 __attribute__((vector_size(2 * L)));  // one byte for each lane of W
typedef std::uint16_t H __attribute__((vector_size(2 * L)));

template <class V>
struct Unaligned {
    V value;
} __attribute__((packed, may_alias));

template <class V, class T>
ZO_INLINE V load(const T* p) {
    return reinterpret_cast<const Unaligned<V>*>(p)->value;
}

template <class V, class T>
ZO_INLINE void store(T* p, V v) {
    reinterpret_cast<Unaligned<V>*>(p)->value = v;
}

/// Makes the compiler forget what it knows of a vector, which stays in its register.
template <class V>
ZO_INLINE void forget(V& v) {
#if defined(__x86_64__)
    asm volatile("" : "+v"(v));
#elif defined(__aarch64__)
    asm volatile("" : "+w"(v));
#else
    asm volatile("" : "+m"(v));
#endif
}

ZO_INLINE F splat(float x) { return F{} + x; }
ZO_INLINE I splat(std::int32_t x) { return I{} + x; }
ZO_INLINE U splat(std::uint32_t x) { return U{} + x; }

/// x in every lane of a register that a loop keeps: GCC else makes such a constant anew in each
/// iteration, which takes as long as an operation.
ZO_INLINE U kept(std::uint32_t x) {
    U v = splat(x);
    if (kRegisters == 32) forget(v);
    return v;
}

template <class V>
ZO_INLINE V maximum(V a, V b) {
    return a > b ? a : b;
}
template <class V>
ZO_INLINE V minimum(V a, V b) {
    return a < b ? a : b;
}

/// The maximum, or NaN if one of the two is NaN.
ZO_INLINE F greatest(F a, F b) {
    const F b_if_nan = maximum(a, b);
    return a == a ? b_if_nan : a;
}
ZO_INLINE I greatest(I a, I b) { return maximum(a, b); }

ZO_INLINE I lanes() {
    I result{};
    for (int i = 0; i < L; ++i) result[i] = i;
    return result;
}

template <class V>
ZO_INLINE auto greatest(V v) {
    auto result = v[0];
    for (int i = 1; i < L; ++i) result = v[i] > result ? v[i] : result;
    return result;
}

/// The lanes of the first halves of two vectors in turns, and those of the second halves.
template <class V>
ZO_INLINE V low(V a, V b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}
template <class V>
ZO_INLINE V high(V a, V b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

/// The lanes of even numbers of two vectors in a row, and those of odd numbers.
template <class V>
ZO_INLINE V evens(V a, V b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}
template <class V>
ZO_INLINE V odds(V a, V b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
    return __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/// The sums of the lanes of L vectors, as the lanes of one. Each round joins two vectors in one.
template <class V>
ZO_INLINE V totals(const V* vectors) {
    V sums[L];
    ZO_FOR (i, L) sums[i] = vectors[i];
    ZO_FOR (round, __builtin_ctz(L)) {
        const int half = L >> (round + 1);
        ZO_FOR (i, half) sums[i] = low(sums[i], sums[i + half]) + high(sums[i], sums[i + half]);
    }
    return sums[0];
}

}  // namespace zo::ZO_ISA
