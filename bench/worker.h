// One thread of a phase.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "bench/driver.h"
#include "bench/histogram.h"
#include "bench/target.h"
#include "bench/workload.h"
#include "store/base/clock.h"

namespace remora::bench {

/// The part of a phase that one thread does.
struct Share {
  std::uint32_t worker = 0;
  std::uint32_t workers = 1;
  /// Loading: inserts the records [first_record, first_record + operations).
  bool loading = false;
  std::uint64_t first_record = 0;
  std::uint64_t operations = 0;
};

/// Operations without end: the phase's duration ends them.
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

/// Thread Safety: Prepare and Run by one thread; done() by any; the results once Run has returned.
class Worker {
 public:
  /// All must outlive the worker. `stop`: shared by the workers of a phase.
  Worker(const WorkloadOptions& options, const Share& share, Session& session, const Clock& clock,
         std::atomic<bool>& stop);

  /// What should not be timed: draws the operations.
  void Prepare();
  void Run();

  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }

  TimePoint begin() const { return begin_; }
  TimePoint end() const { return end_; }
  const std::array<std::uint64_t, kOperationKinds>& operations() const { return operations_; }
  const std::array<Histogram, kOperationKinds>& latency() const { return latency_; }
  const ErrorTally& errors() const { return errors_; }

 private:
  Step NextStep(std::uint64_t number);
  bool IsTimed(std::uint64_t number) const;
  /// When the operation begins, or should have. Waits for a moment that is still to come.
  TimePoint Begin(std::uint64_t number);
  enum class Outcome { kRight, kWrong, kPointless };
  Outcome Do(const Step& step, std::uint64_t number);
  Outcome TakeError(std::string_view key, const absl::Status& status);

  const WorkloadOptions& options_;
  const Share share_;
  Session& session_;
  const Clock& clock_;
  std::atomic<bool>& stop_;

  std::optional<Steps> steps_;
  ValueMaker values_;
  const std::uint64_t first_write_number_;
  std::string value_;  // as last read

  TimePoint begin_;
  TimePoint end_;
  TimePoint last_;  // the last boundary between operations
  std::array<std::uint64_t, kOperationKinds> operations_{};
  std::array<Histogram, kOperationKinds> latency_;
  ErrorTally errors_;

  // On a cache line of its own: another thread looks at it now and then.
  alignas(64) std::atomic<std::uint64_t> done_ = 0;
};

}  // namespace remora::bench
