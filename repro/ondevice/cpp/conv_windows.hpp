// Which inputs a window multiplies: lists of taps, without those that only meet the border's zeros.
#pragma once

#include <span>
#include <vector>

#include "arena.hpp"
#include "kernels.hpp"
#include "layer.hpp"

namespace zo {

/// A tap and the part of the kernel that it stands for.
struct TapReach {
    Tap tap;
    int top, bottom, left, right;  ///< rows and columns of the kernel, both ends included
};

/// The taps of each place of a layer's output.
///
/// A place is one window, or a square of `side` x `side` that is pooled. Places near the border
/// have shorter lists, so that no product with a zero is computed where a whole place has it.
class ConvWindows {
   public:
    /// The table is in the arena, and there once that is allocated.
    ConvWindows(const Layer& layer, int side, const std::vector<TapReach>& taps, Arena& arena);
    ConvWindows(const ConvWindows&) = delete;  // the arena knows where its spans are

    std::span<const Tap> all() const { return list(0); }
    std::span<const Tap> at(int row, int column) const {
        return list(row_kinds_[row] * kinds_ + column_kinds_[column]);
    }
    /// The taps of any place of a row.
    std::span<const Tap> of_row(int row) const { return list(row_kinds_[row] * kinds_); }
    /// The places from `column` on, one behind the other, that have the same taps.
    int run(int column) const;

   private:
    std::span<const Tap> list(int i) const {
        return taps_.subspan(starts_[i], starts_[i + 1] - starts_[i]);
    }

    std::span<const int> row_kinds_, column_kinds_;  // 0 for those of the middle
    int kinds_;                                      // of columns
    std::span<const Tap> taps_;                      // of all lists, one behind the other
    std::span<const std::size_t> starts_;            // of each list, and the end of the last
};

/// Sets the taps of a job.
template <class Windows>
void set_taps(Windows& job, std::span<const Tap> taps) {
    job.taps = taps.data();
    job.tap_count = int(taps.size());
}

/// The number of windows computed side by side if so many are left: 4, 2 or 1.
constexpr int side_by_side(long left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

}  // namespace zo
