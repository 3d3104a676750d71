#include "int_layout.hpp"

#include <algorithm>

#include "parallel.hpp"

namespace zo {
namespace {

/// The channels left over by fours: `channels` of each of height x width pixels in one dword.
struct Rest {
    int channels, height, width;
    explicit Rest(int all)
        : channels(all % 4), height(channels == 1 ? 2 : 1), width(channels == 3 ? 1 : 2) {}

    struct Place {
        int channel, down, right;
    };
    /// Where byte j comes from; false if nowhere.
    bool place(int j, Place& p) const {
        p = {j % channels, j / channels / width, j / channels % width};
        return p.down < height;
    }
};

/// Whether tiles take less time than vectors: smaller ones leave most of a tile empty.
bool fills_tiles(int outputs, int dwords) { return outputs >= 8 && dwords >= 8; }

bool runs_in_order(const std::vector<std::int32_t>& numbers, int count) {
    for (int i = 0; i < int(numbers.size()); ++i)
        if (numbers[i] != (i < count ? i : -1)) return false;
    return true;
}

}  // namespace

IntLayout::IntLayout(const Layer& l, bool tiles) {
    const int height = l.padded_height(), width = l.padded_width(), plane = height * width;
    if (l.fully_connected()) {
        const int inputs = l.fan_in();
        pixel_dwords = dwords = (inputs + 3) / 4;
        for (int i = 0; i < 4 * dwords; ++i) sources.push_back(i < inputs ? i : -1);
        for (int t = 0; t < dwords; ++t)
            taps.push_back({{t, t}, 0, l.kernel_height - 1, 0, l.kernel_width - 1});
        weights = sources;
        if (tiles && fills_tiles(l.outputs, dwords)) neighbours = dwords;
        direct = inputs % 4 == 0;  // or the last dword of a row would have weights of the next
        find_features(l);
        return;
    }
    const int fours = l.channels / 4;
    const Rest rest(l.channels);
    pixel_dwords = fours + (rest.channels > 0);
    dwords = plane * pixel_dwords;
    Rest::Place p;
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            for (int j = 0; j < 4 * pixel_dwords; ++j)
                if (j < 4 * fours)
                    sources.push_back(j * plane + y * width + x);
                else if (rest.place(j % 4, p) && y + p.down < height && x + p.right < width)
                    sources.push_back((4 * fours + p.channel) * plane + (y + p.down) * width + x +
                                      p.right);
                else
                    sources.push_back(-1);
    if (const int row = l.kernel_width * pixel_dwords; tiles && fills_tiles(l.outputs, row))
        neighbours = row;
    const int kernel = l.kernel_height * l.kernel_width;
    const auto weight = [&](int channel, int ky, int kx) {
        const bool inside = ky < l.kernel_height && kx < l.kernel_width;
        weights.push_back(inside ? channel * kernel + ky * l.kernel_width + kx : -1);
    };
    for (int ky = 0; ky < l.kernel_height; ++ky)
        for (int kx = 0; kx < l.kernel_width; ++kx) {
            const int pixel = (ky * width + kx) * pixel_dwords;
            for (int d = 0; d < fours; ++d) {
                taps.push_back({{pixel + d, int(taps.size())}, ky, ky, kx, kx});
                for (int j = 0; j < 4; ++j) weight(4 * d + j, ky, kx);
            }
            if (rest.channels == 0) continue;
            const bool is_first = ky % rest.height == 0 && kx % rest.width == 0;
            if (!is_first && !neighbours) continue;
            taps.push_back({{pixel + fours, int(taps.size())},
                            ky,
                            ky + rest.height - 1,
                            kx,
                            kx + rest.width - 1});
            for (int j = 0; j < 4; ++j)
                if (is_first && rest.place(j, p))
                    weight(4 * fours + p.channel, ky + p.down, kx + p.right);
                else
                    weights.push_back(-1);
        }
    direct = runs_in_order(weights, l.fan_in()) && l.fan_in() % 4 == 0;
    find_features(l);
}

void IntLayout::find_features(const Layer& l) {
    const int width = l.padded_width(), plane = l.padded_height() * width;
    const auto feature = [&](std::int32_t row) {
        const int y = row % plane / width - l.padding, x = row % width - l.padding;
        const bool inside = row >= 0 && 0 <= y && y < l.height && 0 <= x && x < l.width;
        return inside ? (row / plane * l.height + y) * l.width + x : -1;
    };
    for (int d = 0; d < dwords; ++d) {
        std::int32_t four[4];
        for (int j = 0; j < 4; ++j) four[j] = feature(sources[4 * d + j]);
        if (std::ranges::count(four, -1) == 4) continue;
        filled.push_back(d);
        features.insert(features.end(), four, four + 4);
    }
}

IntLayout::Shares IntLayout::shares(int outputs, int dwords, int neighbours, int groups,
                                    int threads, bool awake) {
    constexpr int kTileOutputs = 32;  // two tiles of weights
    constexpr int kAtOnce = 16;       // operations that a tile makes of one
    const std::size_t operations = std::size_t(dwords) * outputs * groups;
    if (!neighbours) return {kOutputsOfAJob, sharing(threads, operations, awake)};
    return {kTileOutputs, sharing(threads, operations / kAtOnce, awake)};
}

}  // namespace zo
