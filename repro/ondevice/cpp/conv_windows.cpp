#include "conv_windows.hpp"

#include <algorithm>

namespace zo {
namespace {

/// The rows (or columns) of a kernel that meet more than zeros.
struct Needed {
    int first, last;
    bool operator==(const Needed&) const = default;
    bool meets(int begin, int end) const { return begin <= last && first <= end; }
};

/// The kinds of `places` places of `side` windows each, and what each needs; kind 0 needs all.
std::vector<Needed> find_kinds(int places, int side, int kernel, int padding, int length,
                               std::vector<int>& kinds) {
    std::vector<Needed> found = {{0, kernel - 1}};
    for (int place = 0; place < places; ++place) {
        const Needed needed = {std::max(0, padding - (place * side + side - 1)),
                               std::min(kernel - 1, padding + length - 1 - place * side)};
        const auto at = std::ranges::find(found, needed);
        kinds.push_back(int(at - found.begin()));
        if (at == found.end()) found.push_back(needed);
    }
    return found;
}

}  // namespace

ConvWindows::ConvWindows(const Layer& l, int side, const std::vector<TapReach>& taps,
                         Arena& arena) {
    const bool are_whole = std::ranges::all_of(taps, [&](const TapReach& t) {
        return t.top == 0 && t.left == 0 && t.bottom == l.kernel_height - 1 &&
               t.right == l.kernel_width - 1;
    });
    // if every tap is for the whole kernel, the border is like the rest, and all places are alike
    const int border = are_whole ? l.padding : 0, padding = l.padding - border;
    std::vector<int> row_kinds, column_kinds;
    const auto rows = find_kinds(l.rows() / side, side, l.kernel_height, padding,
                                 l.height + 2 * border, row_kinds);
    const auto columns = find_kinds(l.columns() / side, side, l.kernel_width, padding,
                                    l.width + 2 * border, column_kinds);
    kinds_ = int(columns.size());
    std::vector<Tap> lists;
    std::vector<std::size_t> starts = {0};
    for (const Needed& row : rows)
        for (const Needed& column : columns) {
            for (const TapReach& t : taps)
                if (row.meets(t.top, t.bottom) && column.meets(t.left, t.right))
                    lists.push_back(t.tap);
            starts.push_back(lists.size());
        }
    arena.keep(row_kinds_, std::move(row_kinds));
    arena.keep(column_kinds_, std::move(column_kinds));
    arena.keep(taps_, std::move(lists));
    arena.keep(starts_, std::move(starts));
}

int ConvWindows::run(int column) const {
    const auto first = column_kinds_.begin() + column;
    return int(std::find_if(first, column_kinds_.end(), [&](int kind) { return kind != *first; }) -
               first);
}

}  // namespace zo
