// Shares jobs among threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

#include "team.hpp"

namespace zo {

/// Outputs of a fully connected layer that one job computes; a multiple of all blocks of a kernel.
inline constexpr int kOutputsOfAJob = 12;
inline long jobs_of(int outputs) { return (outputs + kOutputsOfAJob - 1) / kOutputsOfAJob; }

/// How many threads share so many vector operations: waking another takes a microsecond or more,
/// and of a team that is at work (`awake`) a part of that.
inline int sharing(int threads, std::size_t operations, bool awake = Team::current()) {
    return operations < (awake ? 2048 : 8192) ? 1 : threads;
}

/// The first of a thread's share of the jobs; those of thread + 1 begin where its share ends.
inline long first_job(int thread, int threads, long jobs) {
    const long sharing = std::min<long>(threads, jobs);
    return jobs * std::min<long>(thread, sharing) / sharing;
}

/// Calls work(first, last) for the share of each thread in the jobs from 0 to jobs - 1. Jobs write
/// to places of their own, so that nothing depends on the number of threads; and which thread does
/// a job depends on nothing else, so that what it reads is where it was written. `work` is copied
/// for each thread, and should hold what it needs by value: a line of the leader's stack, which the
/// leader writes to, is slow to read from elsewhere.
template <class Work>
void parallel_shares(int threads, long jobs, const Work& work) {
    Team* const team = Team::current();
    threads = int(std::min<long>(team ? std::min(threads, team->threads()) : threads, jobs));
    if (!team) threads = threads_here(threads);
    const auto share = [=](int thread) {
        work(first_job(thread, threads, jobs), first_job(thread + 1, threads, jobs));
    };
    if (threads <= 1) {
        work(0, jobs);
    } else if (team) {
        team->share(threads, share);
    } else {
#pragma omp parallel for num_threads(threads) schedule(static) firstprivate(share)
        for (int thread = 0; thread < threads; ++thread) share(thread);
    }
}

/// Calls work(i) for i from 0 to jobs - 1.
template <class Work>
void parallel(int threads, long jobs, const Work& work) {
    parallel_shares(threads, jobs, [work](long first, long last) {
        for (long i = first; i < last; ++i) work(i);
    });
}

/// Which thread, from 0 to threads - 1, does the job that asks: it has a scratch of its own.
inline int worker() { return omp_get_thread_num(); }

}  // namespace zo
