// Windows of the input times rows of weights: convolutions and fully connected layers alike.
#pragma once

#include "../kernels.hpp"
#include "dot.hpp"

namespace zo::ZO_ISA {

// What differs between the two number formats.

struct FloatArithmetic {
    typedef FloatWindows Job;
    typedef F Vector;
    typedef F Accumulator;
    static constexpr int kLane = 1;  // elements of X in a lane
    static ZO_INLINE F input(const float* x) { return load<F>(x); }
    static ZO_INLINE F weight(const float* w, int tap) { return splat(w[tap]); }
    static ZO_INLINE F multiply_add(F sum, F x, F w) { return sum + x * w; }
    static ZO_INLINE F begin(float initial) { return splat(initial); }
    static ZO_INLINE F finish(F sum) { return sum; }
};

struct IntArithmetic {
    typedef IntWindows Job;
    typedef I Vector;
    typedef Sum Accumulator;
    static constexpr int kLane = 4;
    static ZO_INLINE I input(const std::uint8_t* x) { return load<I>(x); }
    static ZO_INLINE I weight(const std::int8_t* w, int tap) {
        std::int32_t four;
        __builtin_memcpy(&four, w + 4 * std::ptrdiff_t(tap), 4);
        return splat(four);
    }
    static ZO_INLINE Sum multiply_add(Sum sum, I x, I w) { return dot(sum, x, w); }
    static ZO_INLINE Sum begin(std::int32_t initial) { return ZO_ISA::begin(initial); }
    static ZO_INLINE I finish(Sum sum) { return ZO_ISA::finish(sum); }
};

/// The sums of `Outputs` outputs and `Count` windows, all in registers.
template <class A, int Outputs, int Count>
ZO_INLINE void sums(const typename A::Job& job, int output, const auto* x,
                    typename A::Vector (&result)[Outputs][Count]) {
    const auto* const w = job.w + output * job.w_step;
    typename A::Accumulator sum[Outputs][Count];
    ZO_FOR (o, Outputs) {
        const auto initial = A::begin(job.initial ? job.initial[output + o] : 0);
        ZO_FOR (p, Count) sum[o][p] = initial;
    }
    const Tap* const end = job.taps + job.tap_count;
    for (const Tap* tap = job.taps; tap != end; ++tap) {
        typename A::Vector input[Count];
        ZO_FOR (p, Count) input[p] = A::input(x + job.window[p] + tap->x);
        ZO_FOR (o, Outputs) {
            const auto weight = A::weight(w + o * job.w_step, tap->w);
            ZO_FOR (p, Count) sum[o][p] = A::multiply_add(sum[o][p], input[p], weight);
        }
    }
    ZO_FOR (o, Outputs)
        ZO_FOR (p, Count) result[o][p] = A::finish(sum[o][p]);
}

struct NoRange {
    ZO_INLINE void see(F, F) {}
};

struct VectorRange {
    I least{}, greatest{};
    ZO_INLINE void see(I low, I high) {
        least = minimum(least, low);
        greatest = maximum(greatest, high);
    }
};

ZO_INLINE F special(F sum) { return maximum(F{}, sum); }  // in this order NaN stays NaN
ZO_INLINE I special(I sum) { return (sum << 24) >> 24; }

/// Writes an output's sums of a block.
template <int Count, class V>
ZO_INLINE void put(const auto& job, V (&sum)[Count], auto* y, auto& range) {
    if (job.special) {
        ZO_FOR (p, Count) sum[p] = special(sum[p]);
    }
    V low = sum[0], high = low;
    ZO_FOR (p, Count) {
        low = minimum(low, sum[p]);
        high = greatest(high, sum[p]);
    }
    range.see(low, high);
    if (job.maximum) {
        store(y, high);
    } else {
        ZO_FOR (p, Count) store(y + job.y_window[p], sum[p]);
    }
}

template <class A, int Outputs, int Count>
ZO_INLINE void block(const typename A::Job& job, int output, const auto* x, auto* y, auto& range) {
    typename A::Vector sum[Outputs][Count];
    sums<A, Outputs, Count>(job, output, x, sum);
    ZO_FOR (o, Outputs) put<Count>(job, sum[o], y + (output + o) * job.y_output, range);
}

/// All blocks of windows for outputs [output, output + Outputs).
template <class A, int Outputs, int Count>
__attribute__((noinline)) void row(const typename A::Job& job, int output, auto& range) {
    for (int b = 0; b < job.blocks; ++b)
        for (int part = 0; part < kParts; ++part)
            block<A, Outputs, Count>(job, output, job.x + b * job.x_step + part * L * A::kLane,
                                     job.y + b * job.y_step + part * L, range);
}

/// The most outputs whose accumulators stay in registers beside the inputs and a weight.
template <int Count>
inline constexpr int kMostOutputs = kRegisters == 32 ? (Count == 4 ? 6 : 12)
                                                     : (Count == 4   ? 2
                                                        : Count == 2 ? 4
                                                                     : 6);

template <class A, int Count>
ZO_INLINE void outputs(const typename A::Job& job, auto& range) {
    constexpr int most = kMostOutputs<Count>;
    int o = 0;
    for (; o + most <= job.outputs; o += most) row<A, most, Count>(job, o, range);
    if constexpr (most > 6)
        for (; o + 6 <= job.outputs; o += 6) row<A, 6, Count>(job, o, range);
    if constexpr (most > 4)
        for (; o + 4 <= job.outputs; o += 4) row<A, 4, Count>(job, o, range);
    if constexpr (most > 2)
        for (; o + 2 <= job.outputs; o += 2) row<A, 2, Count>(job, o, range);
    for (; o < job.outputs; ++o) row<A, 1, Count>(job, o, range);
}

template <class A>
ZO_INLINE void windows(const typename A::Job& job, auto& range) {
    switch (job.windows) {
        case 4: return outputs<A, 4>(job, range);
        case 2: return outputs<A, 2>(job, range);
        default: return outputs<A, 1>(job, range);
    }
}

inline void windows_f32(const FloatWindows& job) {
    NoRange range;
    windows<FloatArithmetic>(job, range);
}

}  // namespace zo::ZO_ISA
