#include "int_walk.hpp"

#include <algorithm>

#include "parallel.hpp"
#include "rounding.hpp"

namespace zo {
namespace {

constexpr std::size_t kPiece = 4096;  // weights moved at a time

}  // namespace

void IntWalk::reserve(Arena& arena) {
    std::vector<Piece> pieces;
    for (int layer = 0; layer < network_.tail(); ++layer)
        for (std::size_t i = network_.offset(layer); i < network_.offset(layer + 1); i += kPiece)
            pieces.push_back({i, std::min(kPiece, network_.offset(layer + 1) - i), layer});
    arena.keep(pieces_, std::move(pieces));
    arena.reserve(largest_, network_.tail());
    if (network_.head_parameters() <= kKeptNoise) arena.reserve(kept_, network_.head_parameters());
}

void IntWalk::start(const IntNoise& noise) {
    noise_ = noise;
    drawn_ = false;
}

/// The move of a piece; its noise is drawn into `own` if it is not kept.
IntMove IntWalk::move_of(Piece& piece, int factor, std::span<const std::int8_t> from,
                         std::int8_t* own) {
    std::int8_t* const z = kept_.empty() ? own : kept_.data() + piece.first;
    if (!drawn_ || kept_.empty())
        piece.largest = network_.machine().kernels.noise_i8(noise_, piece.first, piece.count, z);
    return {from.data() + piece.first, network_.parameters().data() + piece.first, z, piece.count,
            factor};
}

std::size_t IntWalk::move(int factor, std::span<const std::int8_t> from) {
    const Machine& machine = network_.machine();
    parallel(machine.threads, long(pieces_.size()), [&](long i) {
        std::int8_t own[kPiece];
        pieces_[i].clipped = machine.kernels.move_i8(move_of(pieces_[i], factor, from, own));
    });
    std::size_t clipped = 0;
    std::ranges::fill(largest_, 0);
    for (const Piece& piece : pieces_) {
        clipped += piece.clipped;
        largest_[piece.layer] = std::max(largest_[piece.layer], piece.largest);
    }
    drawn_ = true;
    return clipped;
}

void IntWalk::descend(int factor, std::span<const std::int8_t> from, int g, int bits) {
    const Machine& machine = network_.machine();
    parallel(machine.threads, long(pieces_.size()), [&](long i) {
        std::int8_t own[kPiece];
        const GradientShift shift(largest_[pieces_[i].layer], bits);
        machine.kernels.descend_i8(
            {move_of(pieces_[i], factor, from, own), g, shift.k, shift.vanishes});
    });
}

}  // namespace zo
