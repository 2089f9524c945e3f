// Clocks that a test moves.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "store/base/clock.h"

namespace remora {

/// The machine's clock, and ahead of it by what it was advanced. From any thread.
class ShiftedClock final : public Clock {
 public:
  TimePoint Now() const override { return machine_.Now() + shift(); }
  TimePoint Coarse() const override { return machine_.Coarse() + shift(); }
  std::int64_t UnixMillis() const override {
    return machine_.UnixMillis() + std::chrono::floor<std::chrono::milliseconds>(shift()).count();
  }
  void Advance(Duration duration) { shift_ += duration.count(); }

 private:
  Duration shift() const { return Duration(shift_.load()); }

  const SteadyClock machine_{};
  std::atomic<Duration::rep> shift_ = 0;
};

/// Another machine's clock: of another date, and somewhat faster or slower.
class OtherClock final : public Clock {
 public:
  OtherClock(const Clock& base, std::chrono::milliseconds ahead, std::int64_t drift_ppm)
      : base_(base),
        start_(base.Now()),
        unix_start_ms_(base.UnixMillis() + ahead.count()),
        drift_ppm_(drift_ppm) {}
  TimePoint Now() const override { return Of(base_.Now()); }
  TimePoint Coarse() const override { return Of(base_.Coarse()); }
  std::int64_t UnixMillis() const override {
    return unix_start_ms_ + std::chrono::floor<std::chrono::milliseconds>(Now() - start_).count();
  }

 private:
  TimePoint Of(TimePoint time) const { return time + (time - start_) * drift_ppm_ / 1'000'000; }

  const Clock& base_;
  const TimePoint start_;
  const std::int64_t unix_start_ms_;
  const std::int64_t drift_ppm_;
};

}  // namespace remora
