// The layer table: a network is a list of stages, each a convolution and what follows it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace zo {

/// Samples that are computed together: lanes of a vector, or of two or four where vectors are
/// short.
inline constexpr int kGroup = 16;

/// A weighted layer with the batch norm, the ReLU and the max pooling behind it, for one input
/// size.
///
/// A fully connected layer is a convolution whose kernel covers its input; one that all points
/// share is a 1 x 1 convolution over a row of points; the maximum over points is a window as wide
/// as the row. Strides are 1; pooling windows lie side by side, and what fills none is left out.
struct Layer {
    std::string name;
    int channels, height, width;  ///< of the input
    int outputs;                  ///< channels of the output
    int kernel_height, kernel_width;
    int padding;     ///< zeros on each side
    bool bias;       ///< float networks only
    bool rectified;  ///< ReLU
    int pool_height, pool_width;
    bool normed = false;  ///< batch norm before ReLU and pooling; float networks only
    float norm_eps = 1e-5f, norm_momentum = 0.1f;  ///< as in torch.nn.BatchNorm2d
    /// As a torch.nn.BatchNorm2d in evaluation mode: training, too, uses the running statistics and
    /// leaves them as they are.
    bool norm_frozen = false;

    int fan_in() const { return channels * kernel_height * kernel_width; }
    std::size_t weights() const { return std::size_t(outputs) * fan_in(); }
    /// Where the batch norm's scales and shifts begin, behind weights and biases.
    std::size_t scales() const { return weights() + (bias ? outputs : 0); }
    std::size_t parameters() const { return scales() + (normed ? 2 * outputs : 0); }
    int padded_height() const { return height + 2 * padding; }
    int padded_width() const { return width + 2 * padding; }
    int rows() const { return padded_height() - kernel_height + 1; }   ///< before pooling
    int columns() const { return padded_width() - kernel_width + 1; }  ///< before pooling
    int pooled_rows() const { return rows() / pool_height; }
    int pooled_columns() const { return columns() / pool_width; }
    bool pools() const { return pool_height * pool_width > 1; }
    /// Whether every sum is in one window of 2 x 2.
    bool pools_by_two() const {
        return pool_height == 2 && pool_width == 2 && rows() % 2 == 0 && columns() % 2 == 0;
    }
    int features() const { return outputs * pooled_rows() * pooled_columns(); }
    /// Zeros around the output's error, for the error of the input by a full correlation.
    int error_padding() const { return fully_connected() ? 0 : kernel_height - 1 - padding; }
    bool fully_connected() const { return rows() == 1 && columns() == 1 && padding == 0; }
};

/// The layer that gives the error of the input from that of the sums.
Layer transposed(const Layer& layer);

/// The weights of `transposed(layer)`: inputs first, kernels turned by 180 degrees.
template <class T>
void turn(const Layer& layer, const T* weights, T* turned) {
    const int inputs = layer.fully_connected() ? layer.fan_in() : layer.channels,
              taps = layer.fan_in() / inputs;
    for (int o = 0; o < layer.outputs; ++o)
        for (int i = 0; i < inputs; ++i)
            for (int k = 0; k < taps; ++k)
                turned[(std::size_t(i) * layer.outputs + o) * taps + k] =
                    weights[std::size_t(o) * layer.fan_in() + i * taps + taps - 1 - k];
}

/// Throws std::invalid_argument unless the layers are sound and each fits the one before.
void check(std::span<const Layer> layers);

/// Number of parameters of layers [first, last).
std::size_t parameters(std::span<const Layer> layers);

}  // namespace zo
