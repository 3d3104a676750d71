// Batch norm of a float layer's sums (Ioffe and Szegedy 2015), as torch.nn.BatchNorm2d.
#pragma once

#include <span>

#include "arena.hpp"
#include "float_convolution.hpp"

namespace zo {

/// How a batch norm goes: by its running statistics, or by those of the batch, which also move
/// them. Recorded is training that keeps what `backward` needs.
enum class Pass { kEvaluation, kTraining, kRecorded };

/// The mean of a channel's values in a batch, the sum of the squares of their differences from it,
/// and how many they are.
struct ChannelMoments {
    double mean, squares, count;
};

/// Channels are independent of each other, so threads may share them.
class FloatNorm {
   public:
    /// `machine`: to be there as long as this is.
    FloatNorm(const Layer& layer, const Machine& machine) : layer_(layer), machine_(machine) {}

    void reserve(Arena& arena);
    /// Sets the running variances to 1; to be called once, after the arena was allocated.
    void prepare();

    /// Running means and unbiased variances, [2][outputs].
    std::span<float> running() { return running_; }

    ChannelMoments moments(int channel, const FloatMap& sums, int batch) const;

    /// By the mean and the biased variance of the batch, which also move the running ones.
    /// `parameters`: scales and shifts, [2][outputs].
    Affine by_batch(int channel, const ChannelMoments& moments, const float* parameters);
    /// By the running mean and variance.
    Affine by_running(int channel, const float* parameters) const;

    /// What the error of the sums, which `by_batch` saw last, is made of, from the sum of the
    /// output's errors e and that of e (x - mean). Adds `factor` times the gradient of the scale
    /// and the shift to `gradient`, [2][outputs].
    Mix backward(int channel, double errors, double products, double count, const float* parameters,
                 float factor, float* gradient) const;
    /// The same for a map of errors, in place.
    void backward(int channel, const FloatMap& sums, const FloatMap& error, int batch,
                  const float* parameters, float factor, float* gradient) const;
    /// The means that `by_batch` saw last.
    const float* means() const { return batch_.data(); }

   private:
    Affine affine(int channel, float mean, float inverse, const float* parameters) const;

    const Layer& layer_;
    const Machine& machine_;
    std::span<float> running_, batch_;  // batch_: the batch's means and 1 / sqrt(variance + eps)
};

}  // namespace zo
