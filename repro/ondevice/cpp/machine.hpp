// What all parts of an engine share.
#pragma once

#include "kernels.hpp"

namespace zo {

struct Machine {
    const Kernels& kernels;
    int threads;
    int capacity;          ///< most samples of a batch
    bool compact = false;  ///< integers: least memory instead of speed
};

/// Throws std::invalid_argument unless it can be used; `unit` is what batches are padded to.
void check(const Machine& machine, int unit);

}  // namespace zo
