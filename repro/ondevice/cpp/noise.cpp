#include "noise.hpp"

#include <algorithm>
#include <stdexcept>

#include "counter.hpp"
#include "parallel.hpp"

namespace zo {
namespace {

/// Draws every piece of the part to the place that `where` names, and hands it to `use`.
template <class Where, class Use>
void for_each_piece(const NoisePart& part, const Where& where, const Use& use) {
    if (part.first % kNoisePiece)
        throw std::invalid_argument("first = " + std::to_string(part.first) +
                                    ": must be a multiple of " + std::to_string(kNoisePiece));
    parallel(part.threads, long((part.count + kNoisePiece - 1) / kNoisePiece), [&](long i) {
        float own[kNoisePiece];
        const std::size_t begin = i * kNoisePiece;
        const std::size_t count = std::min(kNoisePiece, part.count - begin);
        const std::uint64_t place = part.first + begin;  // a counter has its low 32 bits
        const std::uint64_t key = stream_key(part.seed, place >> 32, Purpose::kNoise);
        float* const z = where(begin, count, own);
        part.draw_f32(key, std::uint32_t(place), count, z);
        use(begin, count, z);
    });
}

/// Has a piece of the weights come into the cache while its noise is drawn: the processor would
/// begin to read them only when they are used, and anew in each page.
template <class Weight>
void prefetch(const Weight* theta, std::size_t count) {
    constexpr std::size_t line = 64 / sizeof(Weight);
    for (std::size_t i = 0; i < count; i += line) __builtin_prefetch(theta + i, 1, 2);
}

/// Draws every piece, and hands it to `use` when its weights are at hand.
template <class Weight, class Use>
void for_each_piece_of(const Weight* theta, const NoisePart& part, const Use& use) {
    for_each_piece(
        part,
        [=](std::size_t begin, std::size_t count, float* own) {
            prefetch(theta + begin, count);
            return own;
        },
        use);
}

template <class Weight>
void add(const NoisePart& part, Weight* theta,
         void (*move)(Weight*, const float*, std::size_t, float), float factor) {
    for_each_piece_of(theta, part, [&](std::size_t begin, std::size_t count, const float* z) {
        move(theta + begin, z, count, factor);
    });
}

}  // namespace

void draw(const NoisePart& part, float* z) {
    for_each_piece(
        part, [&](std::size_t begin, std::size_t, float*) { return z + begin; },
        [](std::size_t, std::size_t, const float*) {});
}

void add(const NoisePart& part, void* theta, Format format, float factor) {
    const Kernels& kernels = part.kernels;
    auto* const halves = static_cast<std::uint16_t*>(theta);
    if (format == Format::kFloat32)
        add(part, static_cast<float*>(theta), kernels.move_f32, factor);
    else
        add(part, halves, format == Format::kBfloat16 ? kernels.move_bf16 : kernels.move_f16,
            factor);
}

void lattice_pass(const NoisePart& part, std::uint16_t* theta, Format format,
                  const LatticePass& given) {
    const auto kernel = format == Format::kBfloat16 ? part.kernels.lattice_pass_bf16
                                                    : part.kernels.lattice_pass_f16;
    for_each_piece_of(theta, part, [&](std::size_t begin, std::size_t count, const float* z) {
        const std::uint64_t place = part.first + begin;
        LatticePass pass = given;
        pass.key = stream_key(part.seed, place >> 32, Purpose::kUpdates);
        pass.place = std::uint32_t(place);
        kernel(pass, theta + begin, z, count);
    });
}

}  // namespace zo
