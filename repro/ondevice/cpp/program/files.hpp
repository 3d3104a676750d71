// Items to train on, and files of parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "idx.hpp"

namespace zo {

struct Items {
    Idx images;  ///< [items][height][width]
    std::vector<std::int64_t> labels;

    std::size_t count() const { return labels.size(); }
    std::size_t pixels() const { return images.values.size() / count(); }
};

/// Reads images and labels. Throws std::runtime_error if they are not sound or do not fit.
Items read_items(const std::string& images, const std::string& labels, int classes);

/// Fills a batch with the items of those numbers, grey levels turned into values.
template <class T>
void gather(const Items& items, std::span<const std::uint32_t> numbers, std::span<const T> levels,
            std::vector<T>& inputs, std::vector<std::int64_t>& labels) {
    labels.clear();
    inputs.resize(numbers.size() * items.pixels());
    std::size_t i = 0;
    for (std::uint32_t number : numbers) {
        labels.push_back(items.labels[number]);
        for (std::size_t p = 0; p < items.pixels(); ++p)
            inputs[i++] = levels[items.images.values[number * items.pixels() + p]];
    }
}

/// Reads a file of exactly so many bytes. Throws std::runtime_error.
void load_bytes(const std::string& path, std::span<char> bytes);

/// Writes a file in one step, replacing an earlier one. Throws std::runtime_error.
void save_bytes(const std::string& path, std::span<const char> bytes);

/// Throws std::invalid_argument if `save_bytes` could not write this file.
void require_writable(const std::string& path);

}  // namespace zo
