#include "int_perturbation.hpp"

#include <algorithm>

#include "int_layout.hpp"
#include "parallel.hpp"
#include "rounding.hpp"

namespace zo {
namespace {

constexpr std::size_t kMoved = 4096;  // weights moved at a time

/// Of the weights of a convolution, which one thread puts in order, all are one job.
IntLayout::Shares shares_of(const Layer& l, const Machine& machine) {
    if (machine.compact) return {kOutputsOfAJob, machine.threads};
    if (!l.fully_connected()) return {l.outputs, 1};
    const IntLayout layout(l, machine.kernels.tiles);
    return IntLayout::shares(l.outputs, layout.dwords, layout.neighbours, machine.capacity / kGroup,
                             machine.threads, true);
}

}  // namespace

void IntPerturbation::reserve(Arena& arena) {
    const int threads = network_.machine().threads;
    std::vector<IntLayout::Shares> shares;
    for (int layer = 0; layer < network_.tail(); ++layer)
        shares.push_back(shares_of(network_.layers()[layer], network_.machine()));
    std::vector<Piece> pieces;
    std::vector<std::size_t> starts = {0};
    for (int thread = 0; thread < threads; ++thread) {
        for (int layer = 0; layer < network_.tail(); ++layer) {
            const Layer& l = network_.layers()[layer];
            const auto [outputs, sharing] = shares[layer];
            const long jobs = (l.outputs + outputs - 1) / outputs;
            const auto begin = [&, outputs = outputs, sharing = sharing](int share) {
                const long job = first_job(share, sharing, jobs);
                return network_.offset(layer) +
                       std::min<std::size_t>(job * outputs, l.outputs) * l.fan_in();
            };
            for (std::size_t i = begin(thread), end = begin(thread + 1); i < end; i += kMoved)
                pieces.push_back({i, std::min(kMoved, end - i), layer});
        }
        starts.push_back(pieces.size());
    }
    arena.keep(starts_, std::move(starts));
    arena.keep(pieces_, std::move(pieces));
    arena.reserve(largest_, network_.tail());
    if (!network_.machine().compact && network_.head_parameters() <= kKeptNoise)
        arena.reserve(kept_, network_.head_parameters());
}

template <class Work>
void IntPerturbation::for_each_piece(const Work& work) {
    const int threads = network_.machine().threads;
    parallel(threads, threads, [=, this](long thread) {
        for (std::size_t i = starts_[thread]; i < starts_[thread + 1]; ++i) work(pieces_[i]);
    });
}

void IntPerturbation::start(const IntNoise& noise) {
    noise_ = noise;
    drawn_ = false;
}

/// The move of a piece; its noise is drawn into `own` if it is not kept.
IntMove IntPerturbation::move_of(Piece& piece, int factor, std::span<const std::int8_t> from,
                                 std::int8_t* own) {
    std::int8_t* const z = kept_.empty() ? own : kept_.data() + piece.first;
    if (!drawn_ || kept_.empty())
        piece.largest = network_.machine().kernels.noise_i8(noise_, piece.first, piece.count, z);
    return {from.data() + piece.first, network_.parameters().data() + piece.first, z, piece.count,
            factor};
}

std::size_t IntPerturbation::perturb(int factor, std::span<const std::int8_t> from) {
    for_each_piece([=, this](Piece& piece) {
        std::int8_t own[kMoved];
        piece.clipped = network_.machine().kernels.move_i8(move_of(piece, factor, from, own));
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

void IntPerturbation::update(int factor, std::span<const std::int8_t> from, int g, int bits) {
    for_each_piece([=, this](Piece& piece) {
        std::int8_t own[kMoved];
        const GradientShift shift(largest_[piece.layer], bits);
        network_.machine().kernels.descend_i8(
            {move_of(piece, factor, from, own), g, shift.k, shift.vanishes});
    });
}

}  // namespace zo
