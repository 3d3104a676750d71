// Rows of samples to rows of features.
#pragma once

#include "simd.hpp"

namespace zo::ZO_ISA {

typedef std::int8_t Row __attribute__((vector_size(16)));

ZO_INLINE Row low(Row a, Row b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
ZO_INLINE Row high(Row a, Row b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
}

/// Turns a square: in each round one bit of the row's number becomes one of the column's.
template <class V, int N>
ZO_INLINE void turn(V (&rows)[N]) {
    ZO_FOR (round, __builtin_ctz(N)) {
        V next[N];
        ZO_FOR (i, N / 2) {
            next[2 * i] = low(rows[i], rows[i + N / 2]);
            next[2 * i + 1] = high(rows[i], rows[i + N / 2]);
        }
        ZO_FOR (i, N) rows[i] = next[i];
    }
}

/// Turns squares whose rows are vectors V of N elements; 16 samples are one or more squares.
template <class V, int N, class T>
ZO_INLINE void transpose(const T* samples, std::ptrdiff_t sample_step, int lanes, int count,
                         T* rows, std::ptrdiff_t row_step) {
    if (count < N) {
        for (int i = 0; i < count; ++i)
            for (int lane = 0; lane < 16; ++lane)
                rows[i * row_step + lane] = lane < lanes ? samples[lane * sample_step + i] : 0;
        return;
    }
    for (int next = 0; next < count; next += N) {
        const int i = next + N <= count ? next : count - N;  // the last ones perhaps once more
        for (int first = 0; first < 16; first += N) {
            V block[N];
            for (int j = 0; j < N; ++j)
                block[j] =
                    first + j < lanes ? load<V>(samples + (first + j) * sample_step + i) : V{};
            turn(block);
            for (int j = 0; j < N; ++j) store(rows + (i + j) * row_step + first, block[j]);
        }
    }
}

inline void transpose_i8(const std::int8_t* samples, std::ptrdiff_t sample_step, int lanes,
                         int count, std::int8_t* rows, std::ptrdiff_t row_step) {
    transpose<Row, 16>(samples, sample_step, lanes, count, rows, row_step);
}

inline void transpose_f32(const float* samples, std::ptrdiff_t sample_step, int lanes, int count,
                          float* rows, std::ptrdiff_t row_step) {
    transpose<F, L>(samples, sample_step, lanes, count, rows, row_step);
}

}  // namespace zo::ZO_ISA
