// Gradients of weights: products of errors and inputs, summed over samples and positions.
#pragma once

#include "../kernels.hpp"
#include "dot.hpp"

namespace zo::ZO_ISA {

struct FloatPairs {
    typedef FloatProducts Job;
    typedef F Vector;
    typedef F Accumulator;
    typedef float Wide;
    static constexpr int kParts = 16 / L;  // vectors in a chunk
    static constexpr int kStep = L;        // elements in a vector
    static constexpr int kBurst = 1 << 30;
    static ZO_INLINE F error(const float* e) { return load<F>(e); }
    static ZO_INLINE F input(const float* x) { return load<F>(x); }
    static ZO_INLINE F multiply_add(F sum, F e, F x) { return sum + e * x; }
    static ZO_INLINE F finish(F sum) { return sum; }
};

struct IntPairs {
    typedef IntProducts Job;
    typedef I Vector;
    typedef Sum Accumulator;
    typedef std::int64_t Wide;
    static constexpr int kParts = 1;
    static constexpr int kStep = 4 * L;
    // L sums of 4 products of at most 255 * 128 together stay in int32 for 2^10 vectors.
    static constexpr int kBurst = 1 << 10;
    static ZO_INLINE I error(const std::int8_t* e) { return load<I>(e); }
    static ZO_INLINE I input(const std::int8_t* x) {
        return kUnsigned ? load<I>(x) ^ splat(std::int32_t(0x80808080)) : load<I>(x);
    }
    static ZO_INLINE Sum multiply_add(Sum sum, I e, I x) { return dot(sum, x, e); }
    static ZO_INLINE I finish(Sum sum) { return ZO_ISA::finish(sum); }
};

/// Visits every vector of a job, in bursts that an accumulator can hold.
template <class P, int Outputs, int Taps>
__attribute__((noinline)) void products(const typename P::Job& job, int output, int tap) {
    constexpr int kVectors = (Outputs * Taps + L - 1) / L;
    typename P::Wide result[kVectors * L] = {};
    typename P::Accumulator sum[Outputs][Taps] = {};
    int left = P::kBurst;
    const auto flush = [&] {
        typename P::Vector all[kVectors * L] = {};
        ZO_FOR (o, Outputs)
            ZO_FOR (t, Taps) {
                all[o * Taps + t] = P::finish(sum[o][t]);
                sum[o][t] = typename P::Accumulator{};
            }
        for (int n = 0; n < kVectors; ++n) {
            const auto lanes = totals(all + n * L);
            for (int lane = 0; lane < L; ++lane) result[n * L + lane] += lanes[lane];
        }
        left = P::kBurst;
    };
    const auto* const errors = job.e + output * job.e_output;
    for (int chunk = 0; chunk < job.chunks * P::kParts; ++chunk) {
        for (int r = 0; r < job.rows; ++r) {
            const int inside = chunk % P::kParts * P::kStep;
            const auto* e = errors + chunk / P::kParts * job.e_chunk + r * job.e_row + inside;
            const auto* x = job.x + chunk / P::kParts * job.x_chunk + r * job.x_row + inside;
            if (left < job.columns) flush();
            left -= job.columns;
            for (int c = 0; c < job.columns; ++c, e += job.e_column, x += job.x_column) {
                typename P::Vector error[Outputs];
                ZO_FOR (o, Outputs) error[o] = P::error(e + o * job.e_output);
                ZO_FOR (t, Taps) {
                    const auto input = P::input(x + job.taps[tap + t]);
                    ZO_FOR (o, Outputs) sum[o][t] = P::multiply_add(sum[o][t], error[o], input);
                }
            }
        }
    }
    flush();
    for (int o = 0; o < Outputs; ++o)
        for (int t = 0; t < Taps; ++t)
            job.sums[(output + o) * job.sums_output + tap + t] += job.factor * result[o * Taps + t];
}

inline constexpr int kTaps = 4;
inline constexpr int kErrors = kRegisters == 32 ? 4 : 2;

template <class P, int Outputs>
ZO_INLINE void taps(const typename P::Job& job, int output) {
    int t = 0;
    for (; t + kTaps <= job.tap_count; t += kTaps) products<P, Outputs, kTaps>(job, output, t);
    for (; t < job.tap_count; ++t) products<P, Outputs, 1>(job, output, t);
}

template <class P>
ZO_INLINE void products(const typename P::Job& job) {
    int o = 0;
    for (; o + kErrors <= job.outputs; o += kErrors) taps<P, kErrors>(job, o);
    if constexpr (kErrors > 2)
        for (; o + 2 <= job.outputs; o += 2) taps<P, 2>(job, o);
    for (; o < job.outputs; ++o) taps<P, 1>(job, o);
}

inline void products_f32(const FloatProducts& job) { products<FloatPairs>(job); }

/// The sum of an output's errors.
ZO_INLINE std::int64_t sum_of_errors(const IntProducts& job, int output) {
    constexpr int kMost = 1 << 20;  // vectors, of which each adds at most 4 * 128 to a lane
    std::int64_t all = 0;
    Sum sum{};
    const auto flush = [&] {
        const I lanes = finish(sum);
        for (int lane = 0; lane < L; ++lane) all += lanes[lane];
        sum = Sum{};
    };
    int left = kMost;
    for (int chunk = 0; chunk < job.chunks; ++chunk)
        for (int r = 0; r < job.rows; ++r)
            for (int c = 0; c < job.columns; ++c) {
                sum = dot(sum, splat(0x01010101),
                          load<I>(job.e + output * job.e_output + chunk * job.e_chunk +
                                  r * job.e_row + c * job.e_column));
                if (--left == 0) {
                    flush();
                    left = kMost;
                }
            }
    flush();
    return all;
}

/// Where inputs are unsigned, 128 times the sum of the errors is too much in every product.
inline void products_i8(const IntProducts& job) {
    products<IntPairs>(job);
    if constexpr (kUnsigned)
        for (int o = 0; o < job.outputs; ++o) {
            const std::int64_t excess = job.factor * 128 * sum_of_errors(job, o);
            for (int t = 0; t < job.tap_count; ++t) job.sums[o * job.sums_output + t] -= excess;
        }
}

}  // namespace zo::ZO_ISA
