// Shares jobs among OpenMP threads.
#pragma once

#include <omp.h>

#include <cstddef>

namespace zo {

/// Outputs of a fully connected layer that one job computes; a multiple of all blocks of a kernel.
inline constexpr int kOutputsOfAJob = 12;

/// How many threads share so many vector operations: waking another takes about a microsecond.
inline int sharing(int threads, std::size_t operations) { return operations < 8192 ? 1 : threads; }

/// Calls work(i) for i from 0 to jobs - 1. Jobs write to places of their own, so that nothing
/// depends on the number of threads.
template <class Work>
void parallel(int threads, long jobs, const Work& work) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && jobs > 1)
    for (long i = 0; i < jobs; ++i) work(i);
}

/// Which thread, from 0 to threads - 1, does the job that asks: it has a scratch of its own.
inline int worker() { return omp_get_thread_num(); }

}  // namespace zo
