// Files in the IDX format of MNIST.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zo {

/// Bytes of any number of axes.
struct Idx {
    std::vector<std::uint32_t> shape;
    std::vector<std::uint8_t> values;
};

/// Reads a file of unsigned bytes. Throws std::runtime_error, naming the file and what is wrong.
Idx read_idx(const std::string& path);

}  // namespace zo
