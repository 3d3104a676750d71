// Noise of random signs: a word has those of 32 numbers.
#pragma once

#include "words.hpp"

namespace zo::ZO_ISA {

/// 1 - 2^-24. With 1 itself, eps z may lie on the border of two levels of a lattice, and rounding
/// would break the symmetry (repro.methods.rademacher).
constexpr std::uint32_t kMagnitude = 0x3F7FFFFFu;

/// Writes z[first], ..., z[first + count - 1] to z[0], ...; first is a multiple of 512. Sixteen
/// words give 512 numbers: word i bit b, from the lowest, the sign of number 16 b + i.
inline void signs_f32(std::uint64_t key, std::size_t first, std::size_t count, float* z) {
    const Key halves(key);
    for (std::size_t begin = 0; begin < count; begin += 512) {
        U bits[kParts];
        for (int part = 0; part < kParts; ++part)
            bits[part] = words(halves, std::uint32_t((first + begin) / 32) + part * L);
        const std::size_t end = begin + 512 < count ? begin + 512 : count;
        for (std::size_t i = begin; i < end; i += 16) {
            for (int part = 0; part < kParts; ++part) {
                const F signs = F((bits[part] << 31) | kMagnitude);
                bits[part] >>= 1;
                const std::size_t at = i + part * L;
                if (at + L <= end) {
                    store(z + at, signs);
                } else {
                    for (std::size_t lane = 0; at + lane < end; ++lane) z[at + lane] = signs[lane];
                }
            }
        }
    }
}

}  // namespace zo::ZO_ISA
