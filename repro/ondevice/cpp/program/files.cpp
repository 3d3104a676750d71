#include "files.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace zo {

Items read_items(const std::string& images, const std::string& labels, int classes) {
    Items items{read_idx(images), {}};
    const Idx names = read_idx(labels);
    if (items.images.shape.size() != 3)
        throw std::runtime_error(images + ": must have three axes: images, rows, columns");
    if (names.shape.size() != 1 || names.shape[0] != items.images.shape[0])
        throw std::runtime_error(labels + ": must be one label for each of " +
                                 std::to_string(items.images.shape[0]) + " images");
    items.labels.assign(names.values.begin(), names.values.end());
    if (*std::ranges::max_element(items.labels) >= classes)
        throw std::runtime_error(labels + ": a label is above " + std::to_string(classes - 1) +
                                 "; give --classes");
    return items;
}

void load_bytes(const std::string& path, std::span<char> bytes) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    if (!file.read(bytes.data(), std::streamsize(bytes.size())) ||
        file.peek() != std::ifstream::traits_type::eof())
        throw std::runtime_error(path + ": must be a file of " + std::to_string(bytes.size()) +
                                 " bytes");
}

namespace {

/// The file of a path, of a link the one that it names.
std::string target_of(const std::string& path) {
    std::filesystem::path found(path);
    for (int links = 0; links < 40; ++links) {
        std::error_code none;  // of a path that is no link
        const std::filesystem::path named = std::filesystem::read_symlink(found, none);
        if (none) break;
        found = found.parent_path() / named;
    }
    return found.string();
}

/// A temporary file beside it, of this program alone.
std::string part_of(const std::string& target) {
    return target + "." + std::to_string(getpid()) + ".part";
}

}  // namespace

void save_bytes(const std::string& path, std::span<const char> bytes) {
    const std::string target = target_of(path), part = part_of(target);
    std::FILE* const file = std::fopen(part.c_str(), "wb");
    bool whole = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() &&
                 std::fflush(file) == 0 && fsync(fileno(file)) == 0;
    whole = file && std::fclose(file) == 0 && whole;
    if (!whole || std::rename(part.c_str(), target.c_str()) != 0) {
        std::remove(part.c_str());
        throw std::runtime_error(path + ": cannot be written");
    }
}

void require_writable(const std::string& path) {
    const std::string target = target_of(path), part = part_of(target);
    if (std::filesystem::is_directory(target) || !std::ofstream(part, std::ios::app))
        throw std::invalid_argument("--save " + path + ": cannot be written");
    std::remove(part.c_str());
}

}  // namespace zo
