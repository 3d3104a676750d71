// Points in quads: what layers that all points share do beside their products.
#pragma once

#include "../kernels.hpp"
#include "simd.hpp"

namespace zo::ZO_ISA {

/// Calls visit(quad, place in it) for every place.
ZO_INLINE void each_place(int places, const auto& visit) {
    int q = 0;
    for (; 4 * q + 4 <= places; ++q)
        ZO_FOR (p, 4) visit(q, p);
    ZO_FOR (p, 3)
        if (4 * q + p < places) visit(q, p);
}

/// The lanes that have a sample, of a part of 16.
ZO_INLINE I inside(int part, int samples) { return lanes() + part * L < samples; }

/// Writes value(channel, quad)(offset in the quad) to all of y, [quad][channel][4][kGroup], but
/// zeros where there is no place or no sample.
ZO_INLINE void fill(float* y, int channels, int places, int samples, const auto& value) {
    for (int q = 0; 4 * q < places; ++q)
        for (int c = 0; c < channels; ++c) {
            const auto of_quad = value(c, q);
            for (int p = 0; p < 4; ++p) {
                const int most = 4 * q + p < places ? samples : 0;
                for (int part = 0; part < kParts; ++part, y += L)
                    store(y, F(inside(part, most) & I(of_quad(16 * p + part * L))));
            }
        }
}

inline void gather_f32(const FloatGather& given) {
    const FloatGather job = given;
    const Affine same = {1, 0};
    fill(job.y, job.channels, job.places, job.samples, [&](int c, int q) {
        const float* const x = job.x + q * job.x_quad + c * job.x_channel;
        const Affine affine = job.affines ? job.affines[c] : same;
        const F factor = splat(affine.factor), summand = splat(affine.summand),
                center = splat(job.centers ? job.centers[c] : 0.0f);
        return [=, rectified = job.rectified](int i) {
            const F value = load<F>(x + i) * factor + summand;
            return (rectified ? maximum(F{}, value) : value) - center;
        };
    });
}

struct Two {
    F first, second;
};

/// The sums over places, lane by lane, of both values of value(quad, offset in it).
ZO_INLINE Two sums_of_places(int places, int part, const auto& value) {
    F first[4] = {}, second[4] = {};
    each_place(places, [&](int q, int p) {
        const Two two = value(q, 16 * p + part * L);
        first[p] += two.first;
        second[p] += two.second;
    });
    return {(first[0] + first[1]) + (first[2] + first[3]),
            (second[0] + second[1]) + (second[2] + second[3])};
}

ZO_INLINE float sum_of_lanes(const F (&parts)[kParts], int samples) {
    float all[16];
    for (int part = 0; part < kParts; ++part)
        store(all + part * L, F(inside(part, samples) & I(parts[part])));
    ZO_FOR (round, 4)
        for (int half = 8 >> round, i = 0; i < half; ++i) all[i] += all[i + half];
    return all[0];
}

/// In one sweep: differences from a lane's first value, which is one of those that they are of,
/// lose few digits.
inline void row_moments_f32(const FloatRows& job, int samples, Moments* moments,
                            std::ptrdiff_t step) {
    const float places = float(job.places), share = 1 / places;
    for (int row = 0; row < job.rows; ++row, moments += step) {
        const float* const x = job.x + row * job.x_row;
        F means[kParts], squares[kParts];
        ZO_FOR (part, kParts) {
            const F center = load<F>(x + part * L);
            const auto [sum, square] = sums_of_places(job.places, part, [&](int q, int i) {
                const F distance = load<F>(x + q * job.x_quad + i) - center;
                return Two{distance, distance * distance};
            });
            means[part] = center + sum * share;
            squares[part] = square - sum * sum * share;
        }
        const float mean = sum_of_lanes(means, samples) / float(samples);
        ZO_FOR (part, kParts) {
            const F distance = means[part] - mean;
            squares[part] += distance * distance * places;
        }
        *moments = {mean, sum_of_lanes(squares, samples)};
    }
}

ZO_INLINE F greatest_of_places(const FloatRows& job, const float* x, F sign, F before) {
    F best[4] = {before, before, before, before};
    each_place(job.places, [&](int q, int p) {
        best[p] = greatest(best[p], load<F>(x + q * job.x_quad + 16 * p) * sign);
    });
    return greatest(greatest(best[0], best[1]), greatest(best[2], best[3]));
}

/// The same, and which place it is.
ZO_INLINE F choose_place(const FloatRows& job, const float* x, F sign, F best, int first,
                         std::uint16_t* choices) {
    I choice = __builtin_convertvector(load<H>(choices), I);
    each_place(job.places, [&](int q, int p) {
        const F next = load<F>(x + q * job.x_quad + 16 * p) * sign;
        choice = next > best ? splat(first + 4 * q + p) : choice;
        best = greatest(best, next);
    });
    store(choices, __builtin_convertvector(choice, H));
    return best;
}

inline void row_maxima_f32(const FloatRows& job, const float* scales, float* greatest,
                           std::uint16_t* choices, int first) {
    for (int row = 0; row < job.rows; ++row) {
        const F sign = splat(scales && scales[row] < 0 ? -1.0f : 1.0f);
        for (int part = 0; part < kParts; ++part) {
            const int at = 16 * row + part * L;
            const float* const x = job.x + row * job.x_row + part * L;
            const F before = load<F>(greatest + at);
            store(greatest + at, choices ? choose_place(job, x, sign, before, first, choices + at)
                                         : greatest_of_places(job, x, sign, before));
        }
    }
}

/// For a channel and a quad: a function of an offset to the error of the norm's output, which is
/// none where the ReLU is shut, and to the sum's distance from the mean.
ZO_INLINE auto errors_of(const FloatErrors& job, int c, int q) {
    const float *const e = job.e + q * job.e_quad + 64 * c, *const x =
                                                                job.x + q * job.x_quad + 64 * c;
    const F factor = splat(job.affines[c].factor), summand = splat(job.affines[c].summand),
            mean = splat(job.means ? job.means[c] : 0.0f);
    return [=, rectified = job.rectified](int i) {
        const F error = load<F>(e + i), sum = load<F>(x + i);
        const F open = sum * factor + summand > F{} ? error : F{};
        return Two{rectified ? open : error, sum - mean};
    };
}

inline void row_error_moments_f32(const FloatErrors& given, ErrorMoments* moments,
                                  std::ptrdiff_t step) {
    const FloatErrors job = given;
    for (int c = 0; c < job.channels; ++c, moments += step) {
        F errors[kParts], products[kParts];
        ZO_FOR (part, kParts) {
            const Two sums = sums_of_places(job.places, part, [&](int q, int i) {
                const auto [e, distance] = errors_of(job, c, q)(i);
                return Two{e, e * distance};
            });
            errors[part] = sums.first;
            products[part] = sums.second;
        }
        *moments = {sum_of_lanes(errors, job.samples), sum_of_lanes(products, job.samples)};
    }
}

inline void gather_errors_f32(const FloatErrors& given, const Mix* mixes, float* y) {
    const FloatErrors job = given;
    fill(y, job.channels, job.places, job.samples, [&](int c, int q) {
        const F a = splat(mixes[c].a), b = splat(mixes[c].b), summand = splat(mixes[c].c);
        return [=, of_quad = errors_of(job, c, q)](int i) {
            const auto [e, distance] = of_quad(i);
            return e * a + distance * b + summand;
        };
    });
}

}  // namespace zo::ZO_ISA
