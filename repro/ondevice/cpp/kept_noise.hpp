// How much noise an engine keeps.
#pragma once

#include <cstddef>

namespace zo {

/// Noise of at most so many weights is kept between the passes of a step; that of more is drawn
/// again for each. It takes longer to draw than to read, and LeNet-5 has fewer.
inline constexpr std::size_t kKeptNoise = std::size_t(1) << 17;

}  // namespace zo
