// The layer table: a network is a list of stages, each a convolution and what follows it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace zo {

/// Samples that are computed together: lanes of a vector, or of two or four where vectors are short.
inline constexpr int kGroup = 16;

/// A weighted layer with the ReLU and the max pooling behind it, for one input size.
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

    int fan_in() const { return channels * kernel_height * kernel_width; }
    std::size_t weights() const { return std::size_t(outputs) * fan_in(); }
    std::size_t parameters() const { return weights() + (bias ? outputs : 0); }
    int padded_height() const { return height + 2 * padding; }
    int padded_width() const { return width + 2 * padding; }
    int rows() const { return padded_height() - kernel_height + 1; }    ///< before pooling
    int columns() const { return padded_width() - kernel_width + 1; }   ///< before pooling
    int pooled_rows() const { return rows() / pool_height; }
    int pooled_columns() const { return columns() / pool_width; }
    bool pools() const { return pool_height * pool_width > 1; }
    int features() const { return outputs * pooled_rows() * pooled_columns(); }
    /// Zeros around the output's error, for the error of the input by a full correlation.
    int error_padding() const { return fully_connected() ? 0 : kernel_height - 1 - padding; }
    bool fully_connected() const { return rows() == 1 && columns() == 1 && padding == 0; }
};

/// Throws std::invalid_argument unless the layers are sound and each fits the one before.
void check(std::span<const Layer> layers);

/// Number of parameters of layers [first, last).
std::size_t parameters(std::span<const Layer> layers);

}  // namespace zo
