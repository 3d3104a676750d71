// Which inputs a window multiplies: lists of taps, without those that only meet the border's zeros.
#pragma once

#include <span>
#include <vector>

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
class TapTable {
   public:
    TapTable(const Layer& layer, int side, const std::vector<TapReach>& taps);

    std::span<const Tap> all() const { return lists_[0]; }
    std::span<const Tap> at(int row, int column) const {
        return lists_[row_kinds_[row] * kinds_ + column_kinds_[column]];
    }
    /// The taps of any place of a row.
    std::span<const Tap> of_row(int row) const { return lists_[row_kinds_[row] * kinds_]; }
    /// The places from `column` on, one behind the other, that have the same taps.
    int run(int column) const;

   private:
    std::vector<int> row_kinds_, column_kinds_;  // 0 for those of the middle
    int kinds_;                                  // of columns
    std::vector<std::vector<Tap>> lists_;
};

}  // namespace zo
