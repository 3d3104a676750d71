// Rows of samples to rows of features.
#pragma once

#include "simd.hpp"

namespace zo::ZO_ISA {

typedef std::int8_t Row __attribute__((vector_size(16)));

/// The first halves of two rows, byte by byte in turns, and the second halves.
ZO_INLINE Row low_bytes(Row a, Row b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
ZO_INLINE Row high_bytes(Row a, Row b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
}

/// Turns 16 x 16 bytes: four rounds, in each of which one bit of the row's number becomes one of
/// the column's.
ZO_INLINE void turn(Row (&rows)[16]) {
    ZO_FOR (round, 4) {
        Row next[16];
        ZO_FOR (i, 8) {
            next[2 * i] = low_bytes(rows[i], rows[i + 8]);
            next[2 * i + 1] = high_bytes(rows[i], rows[i + 8]);
        }
        ZO_FOR (i, 16) rows[i] = next[i];
    }
}

inline void transpose(const std::int8_t* samples, std::ptrdiff_t sample_step, int lanes, int count,
                      std::int8_t* rows, std::ptrdiff_t row_step) {
    if (count < 16) {
        for (int i = 0; i < count; ++i)
            for (int lane = 0; lane < 16; ++lane)
                rows[i * row_step + lane] = lane < lanes ? samples[lane * sample_step + i] : 0;
        return;
    }
    for (int next = 0; next < count; next += 16) {
        const int i = next + 16 <= count ? next : count - 16;  // the last ones perhaps once more
        Row block[16];
        for (int lane = 0; lane < 16; ++lane)
            block[lane] = lane < lanes ? load<Row>(samples + lane * sample_step + i) : Row{};
        turn(block);
        for (int j = 0; j < 16; ++j) store(rows + (i + j) * row_step, block[j]);
    }
}

}  // namespace zo::ZO_ISA
