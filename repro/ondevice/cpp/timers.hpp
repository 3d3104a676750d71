// Time of each phase of training, in the phases of ElasticZO's Fig. 7.
#pragma once

#include <array>
#include <chrono>

namespace zo {

enum Phase { kForward, kLoss, kPerturb, kUpdate, kBackward, kOther, kPhases };
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"forward", "loss",     "perturb",
                                                                 "update",  "backward", "other"};

/// Seconds of each phase, added up over steps.
class Timers {
   public:
    using Clock = std::chrono::steady_clock;

    /// Counts the time since the last call as part of `phase`.
    void lap(Phase phase) {
        const auto now = Clock::now();
        seconds_[phase] += std::chrono::duration<double>(now - last_).count();
        last_ = now;
    }
    void start() { last_ = Clock::now(); }
    const std::array<double, kPhases>& seconds() const { return seconds_; }

   private:
    Clock::time_point last_ = Clock::now();
    std::array<double, kPhases> seconds_{};
};

}  // namespace zo
