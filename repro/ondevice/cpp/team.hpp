// Threads that stay awake between the parts of a step that they share.
#pragma once

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace zo {

inline bool is_fork = false;

/// So many threads; only one in a fork of a process that has had several, since OpenMP would wait
/// for threads that no fork has.
inline int threads_here(int threads) {
    if (threads > 1) {
        static const int watched = pthread_atfork(nullptr, nullptr, [] { is_fork = true; });
        if (watched != 0 || is_fork) return 1;
    }
    return threads;
}

/// A leader, which runs a step, and others that wait for its parts. They wait by spinning, since a
/// part may be a few microseconds long and OpenMP takes one or two to begin and end it; after a
/// while they let others have the processor.
class Team {
   public:
    /// Runs `work` as the leader of so many threads, fewer if there are not so many processors: one
    /// that waits for its turn would have all others wait. `work` throws nothing.
    template <class Work>
    static void run(int threads, const Work& work) {
        threads = threads_here(std::min(threads, omp_get_num_procs()));
        if (threads <= 1 || current()) return work();
        Team team;
#pragma omp parallel num_threads(threads)
        if (omp_get_thread_num() == 0)
            team.lead(omp_get_num_threads(), work);
        else
            team.follow(omp_get_thread_num());
    }

    /// The team that this thread leads, or null.
    static Team* current() { return current_; }

    int threads() const { return threads_; }

    /// Calls share(thread) on so many threads of the team, for the leader.
    template <class Share>
    void share(int threads, const Share& share) {
        current_ = nullptr;  // nobody leads while they are busy
        give(&share, threads, [](const void* given, int thread) {
            const Share own = *static_cast<const Share*>(given);
            own(thread);
        });
        share(0);
        const unsigned all = given_ * unsigned(threads_ - 1);
        wait([&] { return done_.load(std::memory_order_acquire) == all; });
        current_ = this;
    }

   private:
    using Call = void (*)(const void* share, int thread);
    static constexpr int kSpins = 1 << 16;  // a millisecond or so, less than a time slice

    template <class Work>
    void lead(int threads, const Work& work) {
        threads_ = threads;
        current_ = this;
        work();
        current_ = nullptr;
        give(nullptr, threads, nullptr);  // the end
    }

    void follow(int thread) {
        for (unsigned part = 1;; ++part) {
            wait([&] { return part_.load(std::memory_order_acquire) == part; });
            if (!call_) return;
            if (thread < sharing_) call_(share_, thread);
            done_.fetch_add(1, std::memory_order_release);
        }
    }

    void give(const void* share, int threads, Call call) {
        share_ = share;
        sharing_ = threads;
        call_ = call;
        part_.store(++given_, std::memory_order_release);
    }

    template <class Condition>
    static void wait(const Condition& holds) {
        for (int spin = 0; !holds(); ++spin)
            if (spin < kSpins)
                pause();
            else
                std::this_thread::yield();
    }

    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }

    static inline thread_local Team* current_ = nullptr;

    // A cache line that only the leader writes, one that only the others write, and the leader's.
    alignas(64) std::atomic<unsigned> part_{0};  // how many were given
    const void* share_ = nullptr;                // of the last part, as what follows
    Call call_ = nullptr;
    int sharing_ = 1;
    alignas(64) std::atomic<unsigned> done_{0};  // by all others, of all parts
    alignas(64) unsigned given_ = 0;
    int threads_ = 1;
};

}  // namespace zo
