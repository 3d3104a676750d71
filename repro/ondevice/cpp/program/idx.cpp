#include "idx.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace zo {

Idx read_idx(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path))
        throw std::runtime_error(path + ": cannot be opened");
    const std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
    const auto fail = [&](const std::string& what) {
        throw std::runtime_error(path + ": " + what);
    };
    if (bytes.size() < 4 || bytes[0] || bytes[1] || bytes[2] != 0x08)
        fail("not an IDX file of unsigned bytes");
    const std::size_t axes = bytes[3], header = 4 + 4 * axes;
    if (axes < 1 || axes > 4 || bytes.size() < header)
        fail("its IDX header has " + std::to_string(axes) +
             " axes or is cut off; must have 1 to 4");
    Idx idx;
    std::size_t elements = 1;
    for (std::size_t a = 0; a < axes; ++a) {
        const std::uint8_t* const p = bytes.data() + 4 + 4 * a;
        idx.shape.push_back(std::uint32_t(p[0]) << 24 | std::uint32_t(p[1]) << 16 |
                            std::uint32_t(p[2]) << 8 | p[3]);
        // Bounded by the file at every axis, so that the product cannot wrap.
        if (idx.shape.back() == 0) fail("its IDX header has an axis of size 0");
        if (idx.shape.back() > bytes.size() / elements) fail("shorter than its header says");
        elements *= idx.shape.back();
    }
    if (bytes.size() - header != elements)
        fail(std::to_string(bytes.size() - header) + " values, its header says " +
             std::to_string(elements));
    idx.values.assign(bytes.begin() + header, bytes.end());
    return idx;
}

}  // namespace zo
