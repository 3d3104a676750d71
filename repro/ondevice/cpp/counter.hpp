// Keys of random streams; the words themselves are made in kernels/words.hpp.
#pragma once

#include <cstdint>

namespace zo {

/// Output number x of SplitMix64 (Steele et al. 2014).
constexpr std::uint64_t splitmix64(std::uint64_t x) {
    std::uint64_t z = x + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

enum class Purpose : std::uint64_t {
    kNoise = 0,
    kLossRounding = 1,
    kWeights = 2,
    kOrder = 3,
    kUpdates = 4
};

/// The key of one stream, as repro.integer.counter.stream_key.
constexpr std::uint64_t stream_key(std::uint64_t seed, std::uint64_t step, Purpose purpose) {
    return splitmix64(splitmix64(splitmix64(seed) ^ step) ^ std::uint64_t(purpose));
}

/// word(key, i): 32 random bits ("lowbias32" with a second key word; docs/integer.md).
constexpr std::uint32_t word(std::uint64_t key, std::uint32_t i) {
    std::uint32_t x = i + std::uint32_t(key);
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15) ^ std::uint32_t(key >> 32)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

static_assert(stream_key(0, 0, Purpose::kNoise) == 0x238275BC38FCBE91u);
static_assert(word(stream_key(0, 0, Purpose::kNoise), 3) == 0x6BCDA183u);

}  // namespace zo
