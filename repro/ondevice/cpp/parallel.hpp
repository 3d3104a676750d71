// Shares jobs among OpenMP threads.
#pragma once

namespace zo {

/// Calls work(i) for i from 0 to jobs - 1. Jobs write to places of their own, so that nothing
/// depends on the number of threads.
template <class Work>
void parallel(int threads, long jobs, const Work& work) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && jobs > 1)
    for (long i = 0; i < jobs; ++i) work(i);
}

}  // namespace zo
