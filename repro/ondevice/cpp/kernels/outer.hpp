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

/// The errors of some outputs and a burst of samples, as the machine multiplies them.
template <int Outputs>
struct Errors {
    I e[Outputs][kFours / L];

    ZO_INLINE Errors(const std::int8_t* rows, std::ptrdiff_t row_step, int fours) {
        for (int v = 0; v * L < fours; ++v)
            ZO_FOR (o, Outputs) {
                const I four = load<I>(rows + o * row_step + 4 * v * L);
                e[o][v] = kUnsigned ? four ^ splat(Turned::kFlip) : four;
            }
    }

    /// Those of four samples, for all lanes.
    ZO_INLINE I spread(int output, int four) const {
        std::int32_t value;
        __builtin_memcpy(&value, reinterpret_cast<const char*>(e[output]) + 4 * four, 4);
        return splat(value);
    }
};

/// Writes, or adds, the first `count` lanes.
ZO_INLINE void put(I values, int count, bool add, std::int32_t* sums) {
    if (count >= L) return store(sums, add ? load<I>(sums) + values : values);
    std::int32_t all[L];
    store(all, values);
    for (int t = 0; t < count; ++t) sums[t] = (add ? sums[t] : 0) + all[t];
}

template <int Outputs>
ZO_INLINE void outer(const IntOuter& job, const Turned& taps, int output, int tap, int first) {
    Sum sum[Outputs] = {};
    const Errors<Outputs> errors(job.e + output * job.e_output + first, job.e_output, taps.fours);
    for (int b = 0; b < taps.fours; ++b)
        ZO_FOR (o, Outputs)
            sum[o] = kUnsigned ? dot(sum[o], errors.spread(o, b), taps.x[b])
                               : dot(sum[o], taps.x[b], errors.spread(o, b));
    ZO_FOR (o, Outputs)
        put(finish(sum[o]) - taps.excess, job.tap_count - tap, first > 0,
            job.sums + (output + o) * job.sums_output + tap);
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

inline constexpr int kSamples = 16;  // in a chunk

/// L taps of a chunk: a vector of them for each sample.
struct TurnedFloats {
    F x[kSamples];

    ZO_INLINE TurnedFloats(const float* rows, const std::int32_t* taps, int count) {
        for (int first = 0; first < kSamples; first += L) {
            F block[L];
            for (int t = 0; t < L; ++t)
                block[t] = t < count ? load<F>(rows + taps[t] + first) : F{};
            turn(block);
            for (int j = 0; j < L; ++j) x[first + j] = block[j];
        }
    }
};

template <int Outputs>
ZO_INLINE void outer(const FloatOuter& job, const TurnedFloats& taps, int output, int tap,
                     int chunk) {
    F sum[Outputs] = {};
    const float* const e = job.e + output * job.e_output + chunk * job.e_chunk;
    for (int b = 0; b < kSamples; ++b)
        ZO_FOR (o, Outputs) sum[o] += splat(e[o * job.e_output + b]) * taps.x[b];
    const int left = job.tap_count - tap;
    ZO_FOR (o, Outputs) {
        float* const sums = job.sums + (output + o) * job.sums_output + tap;
        sum[o] *= splat(job.factor);
        if (left >= L) {
            store(sums, load<F>(sums) + sum[o]);
        } else {
            for (int t = 0; t < left; ++t) sums[t] += sum[o][t];
        }
    }
}

inline void outer_f32(const FloatOuter& given) {
    const FloatOuter job = given;
    for (int tap = 0; tap < job.tap_count; tap += L)
        for (int chunk = 0; chunk < job.chunks; ++chunk) {
            const TurnedFloats taps(job.x + chunk * job.x_chunk, job.taps + tap,
                                    job.tap_count - tap);
            int o = 0;
            for (; o + 8 <= job.outputs; o += 8) outer<8>(job, taps, o, tap, chunk);
            for (; o + 4 <= job.outputs; o += 4) outer<4>(job, taps, o, tap, chunk);
            for (; o < job.outputs; ++o) outer<1>(job, taps, o, tap, chunk);
        }
}

}  // namespace zo::ZO_ISA
