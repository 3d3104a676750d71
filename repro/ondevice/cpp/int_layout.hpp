// The order in which int8 dot products read a layer's input and its weights.
#pragma once

#include <cstdint>
#include <vector>

#include "conv_windows.hpp"

namespace zo {

/// Groups of four bytes ("dwords") that one dot product takes, for the input and the weights.
///
/// Of each pixel the channels are taken in fours. One or two channels left over share a dword with
/// those of the pixels to the right and below, which are thus stored twice, so that hardly a
/// multiplication is wasted on zeros: LeNet-5's second convolution has 150 inputs and takes 160.
struct IntLayout {
    /// How threads share the outputs of a fully connected layer.
    struct Shares {
        int outputs;  ///< of a job
        int threads;  ///< that take jobs
    };

    /// `tiles`: as of Kernels. Rows of the kernel are whole then where tiles are worth it.
    IntLayout(const Layer& layer, bool tiles);

    /// `awake`: as of sharing().
    static Shares shares(int outputs, int dwords, int neighbours, int groups, int threads,
                         bool awake);

    int pixel_dwords;                    ///< of one pixel of the padded input
    int dwords;                          ///< of one sample
    std::vector<std::int32_t> sources;   ///< [4 dwords] rows of the padded map, -1 for none
    std::vector<std::int32_t> filled;    ///< dwords with a feature in them
    std::vector<std::int32_t> features;  ///< [4 filled] of the map without its border, -1 for none
    std::vector<TapReach> taps;          ///< in dwords
    std::vector<std::int32_t> weights;   ///< [4 taps] of an output's weights, -1 for zero
    bool direct;                         ///< whether the weights are used as they lie
    int neighbours = 0;                  ///< as of Windows

   private:
    void find_features(const Layer& layer);
};

}  // namespace zo
