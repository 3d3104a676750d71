// Whether numbers are finite.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace zo {

/// Whether the float32 `value(i)` is finite for every i < count.
template <class Value>
bool all_finite(std::size_t count, const Value& value) {
    std::int32_t largest = 0;  // as bits, since a comparison of integers is vectorised
    for (std::size_t i = 0; i < count; ++i)
        largest = std::max(largest, std::bit_cast<std::int32_t>(value(i)) & 0x7FFFFFFF);
    return std::isfinite(std::bit_cast<float>(largest));
}

}  // namespace zo
