// What the errors of a point-wise layer's sums are for: the gradient of its weights, and the errors
// of its inputs.
#pragma once

#include <deque>
#include <span>

#include "parallel.hpp"
#include "pointwise_mlp.hpp"

namespace zo {

/// Goes through a layer tile by tile, in slices that threads share.
class TileGradient {
   public:
    /// What a thread has for a tile.
    struct Scratch {
        float *inputs, *errors;  ///< [quad][channel][4][kGroup]
        float *turned, *sums;
    };
    /// From the errors of sums to those of inputs: weights, [input][error], and what is added.
    struct PassOn {
        const float *weights, *initial;
        std::ptrdiff_t step;  ///< from input to input
    };

    TileGradient(const PointwiseMlp& mlp, int tail, const Machine& machine, Arena& arena);

    /// The errors of a layer's output; `run` puts those of its input in their place.
    const QuadMap& errors() const { return errors_; }

    /// Sums the products of errors and inputs less `centers` (null for zeros). `find(tile,
    /// scratch)` returns the errors of so many rows in a tile. `pass_on`: null where nobody needs
    /// them.
    template <class Find>
    void run(const PointwiseLayer& layer, int rows, const float* centers, const PassOn* pass_on,
             const Find& find) {
        const int tiles = mlp_.groups() * layer.tiles;
        parallel(machine_.threads, kSlices, [&](long slice) {
            float* const partial = begin(layer, rows, int(slice));
            const Scratch own = scratch();
            for (int n = int(tiles * slice / kSlices); n < tiles * (slice + 1) / kSlices; ++n) {
                const Tile tile = mlp_.tile(layer, n);
                mlp_.gather(layer, tile, centers, own.inputs);
                const float* const errors = find(tile, own);
                multiply(layer, tile, own, errors, rows, partial);
                if (pass_on) pass(layer, tile, errors, rows, *pass_on);
            }
        });
    }
    /// The sum that `run` found for a row and an input.
    float sum(const PointwiseLayer& layer, int rows, int row, int input) const;
    /// The calling thread's.
    Scratch scratch() const;

   private:
    static constexpr int kSlices = 16;

    std::size_t partial(const PointwiseLayer& layer, int rows) const;
    float* begin(const PointwiseLayer& layer, int rows, int slice);
    void multiply(const PointwiseLayer& layer, const Tile& tile, const Scratch& own,
                  const float* errors, int rows, float* partial) const;
    void pass(const PointwiseLayer& layer, const Tile& tile, const float* errors, int rows,
              const PassOn& on) const;

    const PointwiseMlp& mlp_;
    const int tail_;
    const Machine& machine_;
    QuadMap errors_;
    std::deque<std::span<const Tap>> points_;  // of a tile, for each layer of the tail
    std::span<const Tap> taps_;
    std::span<float> partials_, scratch_;
    std::size_t inputs_ = 0, turned_ = 0, sums_ = 0, errors_of_tile_ = 0;  // of a scratch
};

}  // namespace zo
