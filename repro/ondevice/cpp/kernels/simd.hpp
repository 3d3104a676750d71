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
#define ZO_UNROLL _Pragma("GCC unroll 24")

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
typedef std::int16_t W __attribute__((vector_size(4 * L)));   // twice the lanes, half as wide
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

ZO_INLINE F splat(float x) { return F{} + x; }
ZO_INLINE I splat(std::int32_t x) { return I{} + x; }
ZO_INLINE U splat(std::uint32_t x) { return U{} + x; }

template <class V>
ZO_INLINE V maximum(V a, V b) {
    return a > b ? a : b;
}
template <class V>
ZO_INLINE V minimum(V a, V b) {
    return a < b ? a : b;
}

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

template <class S, class V>
ZO_INLINE S total(V v) {
    S sum = 0;
    for (int i = 0; i < L; ++i) sum += S(v[i]);
    return sum;
}

}  // namespace zo::ZO_ISA
