#include "int_loss.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "counter.hpp"

namespace zo {
namespace {

constexpr std::int64_t kLog2E = 47274;  // in units of 2^-15
constexpr int kSpan = 10, kGradientBits = 11, kErrorShift = 4, kSeriesExponent = -7,
              kLeastExponent = -20;
constexpr int kLargestShift = 30, kRescaling = 24;

/// value * 2^exponent, a division truncating toward zero. By shifts: a division takes ten times as
/// long, and there are four for each logit of a step.
std::int64_t scale(std::int64_t value, int exponent) {
    if (exponent >= 0) return value * (std::int64_t(1) << std::min(exponent, kLargestShift));
    const int shift = std::min(-exponent, 62);
    const std::int64_t below_zero = value >> 63;
    return (value + (below_zero & ((std::int64_t(1) << shift) - 1))) >> shift;
}

/// The logarithms t of the powers of two that stand for e^(m 2^s), of every mantissa m.
class Logarithms {
   public:
    explicit Logarithms(int exponent, int widening = 0) {
        for (int m = -128; m < 128; ++m) {
            const std::int64_t widened = m * (std::int64_t(1) << widening);
            all_[m + 128] = scale(widened * kLog2E / (1 << 15), exponent - widening);
        }
    }
    std::int64_t operator[](std::int8_t mantissa) const { return all_[mantissa + 128]; }

   private:
    std::array<std::int64_t, 256> all_;
};

/// Exponents p of powers of two that stand for the exponentials of one sample.
class Powers {
   public:
    Powers(const Logarithms& logarithms, const std::int8_t* values, int classes)
        : logarithms_(logarithms), values_(values) {
        std::int64_t greatest = logarithms[values[0]];
        for (int c = 1; c < classes; ++c) greatest = std::max(greatest, logarithms[values[c]]);
        least_ = greatest - kSpan;
    }
    std::int64_t operator[](int c) const {
        return std::max<std::int64_t>(logarithms_[values_[c]] - least_, 0);
    }

   private:
    const Logarithms& logarithms_;
    const std::int8_t* values_;
    std::int64_t least_;
};

/// The loss of a batch in bits, with floor(log2) (equation 12).
std::int64_t floored(const IntLogits& logits, std::span<const std::int64_t> labels, int common) {
    const Logarithms logarithms(logits.exponent, std::min(logits.exponent - common, kRescaling));
    std::int64_t bits = 0;
    for (int b = 0; b < logits.batch; ++b) {
        const Powers p(logarithms, logits.values + std::size_t(b) * logits.classes, logits.classes);
        std::uint64_t sum = 0;
        for (int c = 0; c < logits.classes; ++c) sum += std::uint64_t(1) << p[c];
        bits += std::bit_width(sum) - 1 - p[int(labels[b])];
    }
    return bits;
}

double nats(std::int64_t bits, int batch) { return double(bits) * std::numbers::ln2 / batch; }

template <class T>
int order(T a, T b) {
    return (a > b) - (a < b);
}

}  // namespace

Comparison compare(SignRule rule, const IntLogits& plus, const IntLogits& minus,
                   std::span<const std::int64_t> labels) {
    if (rule == SignRule::kFloat) {
        const double a = mean_loss(rule, plus, labels), b = mean_loss(rule, minus, labels);
        return {order(a, b), a, b};
    }
    const int common = std::min(plus.exponent, minus.exponent);
    const std::int64_t a = floored(plus, labels, common), b = floored(minus, labels, common);
    return {order(a, b), nats(a, plus.batch), nats(b, minus.batch)};
}

double mean_loss(SignRule rule, const IntLogits& logits, std::span<const std::int64_t> labels) {
    if (rule == SignRule::kFloat) return cross_entropy(logits, labels) / logits.batch;
    return nats(floored(logits, labels, logits.exponent), logits.batch);
}

double cross_entropy(const IntLogits& logits, std::span<const std::int64_t> labels) {
    const double unit = std::ldexp(1.0, logits.exponent);
    // most differences occur more than once
    std::array<double, 256> exponentials;
    exponentials.fill(-1);
    const auto exponential = [&](int below) {
        double& found = exponentials[below];
        if (found < 0) found = std::exp(-below * unit);
        return found;
    };
    double all = 0;
    for (int b = 0; b < logits.batch; ++b) {
        const std::int8_t* const s = logits.values + std::size_t(b) * logits.classes;
        const int greatest = *std::max_element(s, s + logits.classes);
        double sum = 0;
        for (int c = 0; c < logits.classes; ++c) sum += exponential(greatest - s[c]);
        all += std::log(sum) - (s[labels[b]] - greatest) * unit;
    }
    return all;
}

void logit_errors(const IntLogits& logits, std::span<const std::int64_t> labels, std::uint64_t key,
                  std::span<std::int64_t> work, const LogitErrors& errors) {
    const int classes = logits.classes, e = std::max(logits.exponent, kLeastExponent);
    const Logarithms logarithms(logits.exponent);
    for (int b = 0; b < logits.batch; ++b) {
        const std::int8_t* const s = logits.values + std::size_t(b) * classes;
        if (logits.exponent > kSeriesExponent) {
            const Powers p(logarithms, s, classes);
            for (int c = 0; c < classes; ++c) work[c] = (std::int64_t(1) << p[c]) - 1;
        } else {
            for (int c = 0; c < classes; ++c)
                work[c] = (std::int64_t(1) << (1 - 2 * e)) + s[c] * (std::int64_t(1) << (1 - e)) +
                          s[c] * s[c];
        }
        std::int64_t sum = 0, rest = 0;
        for (int c = 0; c < classes; ++c) sum += work[c];
        for (int c = 0; c < classes; ++c) rest += work[c] = work[c] * (1 << kGradientBits) / sum;
        work[labels[b]] -= rest;
        for (int c = 0; c < classes; ++c) {  // S(g, 4)
            const std::uint32_t number = std::uint32_t(b) * classes + c;
            const std::int64_t draw = word(key, number) >> (32 - kErrorShift);
            const std::int64_t g = work[c], magnitude = g < 0 ? -g : g;
            const std::int64_t up = (magnitude & ((1 << kErrorShift) - 1)) > draw;
            const std::int64_t rounded =
                std::min<std::int64_t>((magnitude >> kErrorShift) + up, 127);
            errors.values[c * errors.of_class + b * errors.of_sample] =
                std::int8_t(g < 0 ? -rounded : rounded);
        }
    }
}

}  // namespace zo
