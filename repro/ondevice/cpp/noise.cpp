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

/// Writes the numbers of a product from `first` on.
void draw(const Product& product, const Kernels& kernels, std::size_t first, std::size_t count,
          float* z) {
    std::size_t row = first / product.columns, column = first % product.columns;
    for (; count; ++row, column = 0) {
        const std::size_t here = std::min(count, product.columns - column);
        kernels.product_f32(product.left + row * product.rank, product.right + column,
                            product.columns, product.rank, here, z);
        z += here;
        count -= here;
    }
}

std::size_t pieces_of(std::size_t count) { return (count + kNoisePiece - 1) / kNoisePiece; }

template <class Use>
void for_each_piece(const NoisePart& part, const Use& use) {
    if (part.first % kNoisePiece)
        throw std::invalid_argument("first = " + std::to_string(part.first) +
                                    ": must be a multiple of " + std::to_string(kNoisePiece));
    parallel(part.threads, long(pieces_of(part.count)), [&](long i) {
        const std::size_t begin = i * kNoisePiece;
        const std::uint64_t place = part.first + begin;  // a counter has its low 32 bits
        use(Piece{begin, std::min(kNoisePiece, part.count - begin),
                  stream_key(part.seed, place >> 32, Purpose::kNoise), place});
    });
}

/// Draws a piece of `part` while its weights come into the cache: the processor would begin to read
/// them only when they are used, and anew in each page. A product is drawn from `origin` on.
template <class Weight>
void draw_for(const Weight* theta, const NoisePart& part, const Piece& piece, float* z,
              std::size_t origin = 0) {
    constexpr std::size_t line = 64 / sizeof(Weight);
    for (std::size_t i = 0; i < piece.count; i += line)
        __builtin_prefetch(theta + piece.begin + i, 1, 2);
    if (part.product)
        draw(*part.product, part.kernels, origin + piece.begin, piece.count, z);
    else
        part.kernels.gaussian_f32(piece.key, std::uint32_t(piece.place), piece.count, z);
}

}  // namespace

void draw(const NoisePart& part, float* z) {
    if (part.product) return draw(*part.product, part.kernels, 0, part.count, z);
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
            draw_for(theta, part, piece, z);
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
            draw_for(theta, part, piece, z);
            kernels.move(weights, z, piece.count, factor);
        }
    });
}

void lattice_pass(const NoisePart& part, std::uint16_t* theta, HalfFormat format, std::size_t chunk,
                  const LatticePass& given) {
    if (!chunk) throw std::invalid_argument("chunk = 0: must be at least 1");
    chunk = std::min(chunk, std::max<std::size_t>(part.count, 1));
    const HalfKernels& kernels = part.kernels.halves[int(format)];
    const std::size_t of_chunk = pieces_of(chunk), whole = part.count / chunk;
    const std::size_t jobs = whole * of_chunk + pieces_of(part.count % chunk);
    // pieces are shared, not chunks, of which a matrix may have too few to share evenly
    parallel(part.threads, long(jobs), [&](long i) {
        const std::uint32_t seed = std::uint32_t(part.seed + i / of_chunk);
        const std::size_t begin = i / of_chunk * chunk;
        const std::uint64_t place = i % of_chunk * kNoisePiece;
        const std::size_t count = std::min(chunk, part.count - begin) - place;
        const Piece piece{place, std::min(kNoisePiece, count),
                          stream_key(seed, place >> 32, Purpose::kNoise), place};
        std::uint16_t* const weights = theta + begin + place;
        LatticePass pass = given;
        pass.key = stream_key(seed, place >> 32, Purpose::kUpdates);
        pass.place = std::uint32_t(place);
        if (part.signs) {
            kernels.lattice_pass_by_signs(pass, weights, piece.key, pass.place, piece.count);
        } else {
            float z[kNoisePiece];
            draw_for(theta + begin, part, piece, z, begin);
            kernels.lattice_pass(pass, weights, z, piece.count);
        }
    });
}

}  // namespace zo
