// Gradients of fully connected layers: outer products of errors and inputs, summed over samples.
//
// With an input of one place there are no positions to sum over, and adding up a vector's lanes for
// each weight would take longer than the products. So the lanes are taps here.
#pragma once

#include "../kernels.hpp"
#include "dot.hpp"
#include "transpose.hpp"

namespace zo::ZO_ISA {

inline constexpr int kFours = 64;  // samples of a burst, in fours; their products stay in int32

/// L taps of a burst: four samples of each in every vector.
struct Turned {
    I x[kFours];
    int fours;
    I excess;  // of errors that have 128 added

    ZO_INLINE Turned(const std::int8_t* rows, std::ptrdiff_t row_step, int count, int samples)
        : fours((samples + 3) / 4) {
        for (int next = 0; next < fours; next += L) {
            I block[L];
            for (int t = 0; t < L; ++t)
                block[t] = t < count ? load<I>(rows + t * row_step + 4 * next) : I{};
            turn(block);
            for (int j = 0; j < L; ++j) x[next + j] = block[j];
        }
        Sum sum{};
        if constexpr (kUnsigned)
            for (int b = 0; b < fours; ++b) sum = dot(sum, splat(kFlip), x[b]);
        excess = finish(sum);
    }

    static constexpr std::int32_t kFlip = std::int32_t(0x80808080);
};

/// The next four samples' errors, for all lanes.
ZO_INLINE I spread(const std::int8_t* e) {
    std::int32_t four;
    __builtin_memcpy(&four, e, 4);
    return kUnsigned ? splat(four) ^ splat(Turned::kFlip) : splat(four);
}

/// Writes, or adds, the first `count` lanes.
ZO_INLINE void put(I values, int count, bool add, std::int64_t* sums) {
    std::int32_t all[L];
    store(all, values);
    for (int t = 0; t < count; ++t) sums[t] = (add ? sums[t] : 0) + all[t];
}

template <int Outputs>
ZO_INLINE void outer(const IntOuter& job, const Turned& taps, int output, int tap, int first) {
    Sum sum[Outputs] = {};
    const std::int8_t* const e = job.e + output * job.e_output + first;
    for (int b = 0; b < taps.fours; ++b)
        ZO_FOR (o, Outputs)
            sum[o] = kUnsigned ? dot(sum[o], spread(e + o * job.e_output + 4 * b), taps.x[b])
                               : dot(sum[o], taps.x[b], spread(e + o * job.e_output + 4 * b));
    const int left = job.tap_count - tap;
    ZO_FOR (o, Outputs) {
        std::int64_t* const sums = job.sums + (output + o) * job.sums_output + tap;
        const I values = finish(sum[o]) - taps.excess;
        if (left >= L)
            put(values, L, first > 0, sums);
        else
            put(values, left, first > 0, sums);
    }
}

inline void outer_i8(const IntOuter& given) {
    const IntOuter job = given;
    for (int tap = 0; tap < job.tap_count; tap += L)
        for (int first = 0; first < job.samples; first += 4 * kFours) {
            const int left = job.samples - first;
            const Turned taps(job.x + tap * job.x_tap + first, job.x_tap, job.tap_count - tap,
                              left < 4 * kFours ? left : 4 * kFours);
            int o = 0;
            for (; o + 8 <= job.outputs; o += 8) outer<8>(job, taps, o, tap, first);
            for (; o + 4 <= job.outputs; o += 4) outer<4>(job, taps, o, tap, first);
            for (; o < job.outputs; ++o) outer<1>(job, taps, o, tap, first);
        }
}

}  // namespace zo::ZO_ISA
