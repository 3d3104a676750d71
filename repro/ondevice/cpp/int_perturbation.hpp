// The weights before the tail, and their perturbation, restore and update along the noise of a
// step.
#pragma once

#include <cstdint>
#include <span>

#include "int_network.hpp"
#include "kept_noise.hpp"

namespace zo {

class IntPerturbation {
   public:
    explicit IntPerturbation(IntNetwork& network) : network_(network) {}

    bool empty() const { return pieces_.empty(); }
    void reserve(Arena& arena);

    /// Chooses z, before the first perturbation of a step.
    void start(const IntNoise& noise);

    /// weights <- clip(from + factor z); returns how many were clipped.
    std::size_t perturb(int factor, std::span<const std::int8_t> from);

    /// weights <- clip(clip(from + factor z) - round(g z)), each layer rounded to so many bits.
    void update(int factor, std::span<const std::int8_t> from, int g, int bits);

   private:
    /// A thread's weights are those of the outputs that it computes of batches as large as the
    /// capacity, so that they are where it wrote them.
    struct Piece {  // within one layer
        std::size_t first, count;
        int layer;
        std::size_t clipped = 0;  // by the last perturbation
        int largest = 0;          // |z|
    };

    template <class Work>
    void for_each_piece(const Work& work);
    IntMove move_of(Piece& piece, int factor, std::span<const std::int8_t> from, std::int8_t* own);

    IntNetwork& network_;
    std::span<Piece> pieces_;
    std::span<const std::size_t> starts_;  // of each thread's pieces, and the end of the last
    std::span<int> largest_;               // |z| of each layer
    std::span<std::int8_t> kept_;          // z, or nothing
    IntNoise noise_{};
    bool drawn_ = false;  // whether the pieces know |z|, and kept_ has z if it is there
};

}  // namespace zo
