// Losses of integer logits, and NITI's gradient of the cross-entropy (docs/integer.md).
#pragma once

#include <cstdint>
#include <span>

#include "int_network.hpp"

namespace zo {

enum class SignRule { kFloat, kInteger };

/// Two passes over one batch: the sign of the difference of their losses, and the losses in nats.
struct Comparison {
    int sign;
    double plus, minus;
};

/// Compares two passes, by equations 6 to 12 of the ElasticZO paper or by the cross-entropy in
/// float64. Logits of the first are given as values, since a network keeps those of one pass.
Comparison compare(SignRule rule, const IntLogits& plus, const IntLogits& minus,
                   std::span<const std::int64_t> labels);

/// The mean loss of a pass, in nats, as the rule measures it.
double mean_loss(SignRule rule, const IntLogits& logits, std::span<const std::int64_t> labels);

/// The sum of the samples' cross-entropy in float64.
double cross_entropy(const IntLogits& logits, std::span<const std::int64_t> labels);

/// NITI's errors of the logits: about 128 (softmax - one hot), rounded stochastically by the stream
/// of that key. `work` holds one value for each class.
void logit_errors(const IntLogits& logits, std::span<const std::int64_t> labels, std::uint64_t key,
                  std::span<std::int64_t> work, const LogitErrors& errors);

}  // namespace zo
