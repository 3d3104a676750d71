// Batch norm of a float layer's sums (Ioffe and Szegedy 2015), as torch.nn.BatchNorm2d.
#pragma once

#include <span>

#include "arena.hpp"
#include "float_convolution.hpp"

namespace zo {

/// The purpose of a forward pass. In training a batch norm uses the statistics of the batch, unless
/// it is frozen, and updates its running ones. Recorded is training that keeps what `backward`
/// needs.
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

    /// Whether a pass needs the moments of the batch; otherwise it uses the running statistics.
    bool uses_batch(Pass pass) const { return pass != Pass::kEvaluation && !layer_.norm_frozen; }

    /// By the mean and the biased variance of the batch, which also move the running ones.
    /// `parameters`: scales and shifts, [2][outputs].
    Affine by_batch(int channel, const ChannelMoments& moments, const float* parameters);
    /// By the running mean and variance.
    Affine by_running(int channel, const float* parameters);

    /// What the error of the sums of the last pass is made of, from the sum of the output's errors
    /// e and that of e (x - mean). Adds `factor` times the gradient of the scale and the shift to
    /// `gradient`, [2][outputs].
    Mix backward(int channel, double errors, double products, double count, const float* parameters,
                 float factor, float* gradient) const;
    /// The same for a map of errors, in place.
    void backward(int channel, const FloatMap& sums, const FloatMap& error, int batch,
                  const float* parameters, float factor, float* gradient) const;
    /// The means that the last pass subtracted.
    const float* means() const { return used_.data(); }

   private:
    Affine affine(int channel, float mean, float inverse, const float* parameters);

    const Layer& layer_;
    const Machine& machine_;
    std::span<float> running_, used_;  // used_: means and 1 / sqrt(variance + eps) of the last pass
};

}  // namespace zo
