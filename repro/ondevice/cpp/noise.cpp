#include "noise.hpp"

#include <algorithm>
#include <stdexcept>

#include "counter.hpp"
#include "parallel.hpp"

namespace zo {
namespace {

/// A piece of a part: `count` numbers from `begin` on, which has the number `place` in z.
struct Piece {
    std::size_t begin, count;
    std::uint64_t key, place;
};

template <class Use>
void for_each_piece(const NoisePart& part, const Use& use) {
    if (part.first % kNoisePiece)
        throw std::invalid_argument("first = " + std::to_string(part.first) +
                                    ": must be a multiple of " + std::to_string(kNoisePiece));
    parallel(part.threads, long((part.count + kNoisePiece - 1) / kNoisePiece), [&](long i) {
        const std::size_t begin = i * kNoisePiece;
        const std::uint64_t place = part.first + begin;  // a counter has its low 32 bits
        use(Piece{begin, std::min(kNoisePiece, part.count - begin),
                  stream_key(part.seed, place >> 32, Purpose::kNoise), place});
    });
}

/// Draws a piece while its weights come into the cache: the processor would begin to read them only
/// when they are used, and anew in each page.
template <class Weight>
void draw_for(const Weight* theta, const Kernels& kernels, const Piece& piece, float* z) {
    constexpr std::size_t line = 64 / sizeof(Weight);
    for (std::size_t i = 0; i < piece.count; i += line)
        __builtin_prefetch(theta + piece.begin + i, 1, 2);
    kernels.gaussian_f32(piece.key, std::uint32_t(piece.place), piece.count, z);
}

}  // namespace

void draw(const NoisePart& part, float* z) {
    for_each_piece(part, [&](const Piece& piece) {
        (part.signs ? part.kernels.signs_f32 : part.kernels.gaussian_f32)(
            piece.key, std::uint32_t(piece.place), piece.count, z + piece.begin);
    });
}

void add(const NoisePart& part, float* theta, float factor) {
    for_each_piece(part, [&](const Piece& piece) {
        float z[kNoisePiece];
        if (part.signs)
            part.kernels.signs_f32(piece.key, std::uint32_t(piece.place), piece.count, z);
        else
            draw_for(theta, part.kernels, piece, z);
        part.kernels.move_f32(theta + piece.begin, z, piece.count, factor);
    });
}

void add(const NoisePart& part, std::uint16_t* theta, HalfFormat format, float factor) {
    const HalfKernels& kernels = part.kernels.halves[int(format)];
    for_each_piece(part, [&](const Piece& piece) {
        std::uint16_t* const weights = theta + piece.begin;
        if (part.signs) {
            kernels.move_by_signs(weights, piece.key, std::uint32_t(piece.place), piece.count,
                                  factor);
        } else {
            float z[kNoisePiece];
            draw_for(theta, part.kernels, piece, z);
            kernels.move(weights, z, piece.count, factor);
        }
    });
}

void lattice_pass(const NoisePart& part, std::uint16_t* theta, HalfFormat format, std::size_t chunk,
                  const LatticePass& given) {
    if (!chunk) throw std::invalid_argument("chunk = 0: must be at least 1");
    chunk = std::min(chunk, std::max<std::size_t>(part.count, 1));
    const HalfKernels& kernels = part.kernels.halves[int(format)];
    parallel(part.threads, long((part.count + chunk - 1) / chunk), [&](long i) {
        const std::uint32_t seed = std::uint32_t(part.seed + i);
        const std::size_t begin = i * chunk;
        NoisePart own{part.kernels, part.signs, 1, seed, 0, std::min(chunk, part.count - begin)};
        for_each_piece(own, [&](const Piece& piece) {
            std::uint16_t* const weights = theta + begin + piece.begin;
            const std::uint32_t place = std::uint32_t(piece.place);
            LatticePass pass = given;
            pass.key = stream_key(seed, piece.place >> 32, Purpose::kUpdates);
            pass.place = place;
            if (part.signs) {
                kernels.lattice_pass_by_signs(pass, weights, piece.key, place, piece.count);
            } else {
                float z[kNoisePiece];
                draw_for(theta + begin, part.kernels, piece, z);
                kernels.lattice_pass(pass, weights, z, piece.count);
            }
        });
    });
}

}  // namespace zo
