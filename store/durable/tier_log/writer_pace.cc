#include "store/durable/tier_log/writer_pace.h"

#include <algorithm>
#include <thread>

namespace remora {
namespace {

// The longest pause is a pace of 10 MB/s, which the flushes of any disk can follow.
constexpr double kSlowestNsPerByte = 100;
constexpr double kWorthSleepingNs = 100'000;
constexpr double kLongestSleepNs = 10'000'000;

}  // namespace

void WriterPace::SlowDown(double fill, std::uint64_t bytes) {
  if (fill <= 0) return;
  owed_ns_ += std::min(fill, 1.0) * kSlowestNsPerByte * static_cast<double>(bytes);
  if (owed_ns_ < kWorthSleepingNs) return;
  const auto pause = static_cast<std::int64_t>(std::min(owed_ns_, kLongestSleepNs));
  owed_ns_ = 0;
  slept_ns_.fetch_add(pause, std::memory_order_relaxed);
  sleeps_.fetch_add(1, std::memory_order_relaxed);
  std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
}

}  // namespace remora
