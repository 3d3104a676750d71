// From an error to that of a window, and from a gradient's sums to the update (docs/integer.md:
// pseudo-stochastic).
#pragma once

#include <type_traits>

#include "simd.hpp"

namespace zo::ZO_ISA {

inline void route_i8(const std::int8_t* from, const std::uint16_t* choices, int choice, int count,
                     std::int8_t* to) {
    const H chosen = H{} + std::uint16_t(choice);
    for (int b = 0; b < count; b += L)
        store(to + b,
              load<B>(from + b) & __builtin_convertvector(load<H>(choices + b) == chosen, B));
}

/// A vector of sums of some type, and one of bytes with as many lanes.
template <class T>
struct Wide {
    static constexpr int kLanes = 4 * L / sizeof(T);
    typedef T Values __attribute__((vector_size(4 * L)));
    typedef std::int8_t Bytes __attribute__((vector_size(kLanes)));
};

/// Calls visit(i, vector) for vectors of sums; the last one is filled up with zeros.
template <class T>
ZO_INLINE void each(const T* sums, std::size_t count, const auto& visit) {
    typedef typename Wide<T>::Values V;
    constexpr int kLanes = Wide<T>::kLanes;
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) visit(i, load<V>(sums + i));
    V rest{};
    for (std::size_t lane = 0; i + lane < count; ++lane) rest[lane] = sums[i + lane];
    if (i < count) visit(i, rest);
}

template <class V>
ZO_INLINE V magnitude(V a) {
    return a < 0 ? -a : a;
}

template <class T>
std::uint64_t largest(const T* sums, std::size_t count) {
    typedef typename Wide<T>::Values V;
    V all{};
    each(sums, count, [&](std::size_t, V a) { all = maximum(all, magnitude(a)); });
    T result = 0;
    for (int lane = 0; lane < Wide<T>::kLanes; ++lane)
        result = all[lane] > result ? all[lane] : result;
    return std::uint64_t(result);
}

/// rounded[i] = P(sums[i], k), clipped, for k >= 1; see rounding.hpp.
template <class T>
void round(const T* sums, std::size_t count, int k, std::int8_t* rounded) {
    typedef typename Wide<T>::Values V;
    constexpr int kLanes = Wide<T>::kLanes;
    const int low_bits = k / 2, odd = k % 2;
    typedef std::make_unsigned_t<T> U;  // in which 1 << 31 is defined
    const T low_mask = T((U(1) << low_bits) - 1), mask = T((U(1) << k) - 1);
    each(sums, count, [&](std::size_t i, V a) {
        const V m = magnitude(a);
        const V low = (m & low_mask) << odd, high = (m & mask) >> low_bits;
        const V up = minimum((m >> k) - (high > low), V{} + T(127));
        const auto values = __builtin_convertvector(a < 0 ? -up : up, typename Wide<T>::Bytes);
        if (i + kLanes <= count) return store(rounded + i, values);
        for (std::size_t lane = 0; i + lane < count; ++lane) rounded[i + lane] = values[lane];
    });
}

}  // namespace zo::ZO_ISA
