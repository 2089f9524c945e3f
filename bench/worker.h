// One thread of a phase.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "bench/histogram.h"
#include "bench/result.h"
#include "bench/shared.h"
#include "bench/target.h"
#include "bench/workload.h"
#include "store/base/clock.h"

namespace remora::bench {

/// The part of a phase that one thread does.
struct Share {
  PhaseKind phase = PhaseKind::kRun;
  std::uint32_t worker = 0;  // of all processes
  std::uint32_t workers = 1;
  /// Loading: the first of `operations` records to insert.
  std::uint64_t first_record = 0;
  std::uint64_t operations = 0;
  double seconds = 0;  // when it ends at the latest; 0: no such end
};

/// Sleeps for most of the time, then spins: the kernel wakes a sleeper some tens of microseconds late.
void WaitUntil(TimePoint moment, const Clock& clock);

/// Said of a value whose record has other fields than the workload.
inline constexpr std::string_view kOtherFields =
    "were not written with these fields: load with the same ones";

/// Operations without end: the phase's time ends them.
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

/// Thread Safety: Prepare and Run by one thread; the results once Run has returned.
class Worker {
 public:
  /// All must outlive the worker. `shared`: of all workers of the phase.
  Worker(const Workload& workload, const Share& share, Session& session, const Clock& clock, Shared& shared);

  /// What should not be timed: draws the operations.
  void Prepare();
  void Run();

  TimePoint begin() const { return begin_; }
  TimePoint end() const { return end_; }
  const std::array<std::uint64_t, kOperationKinds>& operations() const { return operations_; }
  const std::array<Histogram, kOperationKinds>& latency() const { return latency_; }
  /// One for each interval that ended before the last operation, and one for what is left; empty without
  /// intervals.
  const std::vector<Interval>& series() const { return series_; }
  const ErrorTally& errors() const { return errors_; }

 private:
  struct Place;
  /// An operation of those that come one after the other.
  struct Turn {
    explicit Turn(const KeyOptions& keys) : key_text(keys) {}

    Step step;
    bool is_known = false;  // what follows
    std::uint64_t record = 0;
    std::string_view key;
    KeyMaker key_text;
  };
  /// So many are planned at once, so that what this takes does not stand between each and the next.
  static constexpr std::size_t kTurns = 16;
  enum class Outcome { kRight, kWrong, kPointless };

  Step NextStep(std::uint64_t number);
  std::uint64_t RecordOf(const Step& step);
  bool CountsBack() const;
  bool IsTimed(std::uint64_t number) const;
  bool IsPaced() const { return share_.phase != PhaseKind::kLoad && workload_.rate > 0; }
  /// Paced: the moment at which the operation should begin.
  TimePoint Due(std::uint64_t number) const;
  bool ReadsFirst(const Step& step) const;
  bool ReplacesField(const Step& step) const;
  /// The operation has ended, at last_.
  void Count(OperationKind kind, Outcome outcome, bool timed, TimePoint started);

  // --- One after the other (worker.cc)
  void RunInTurn(TimePoint deadline);
  /// When the operation begins, or should have. Waits for a moment that is still to come.
  TimePoint Begin(std::uint64_t number);
  /// The operations from this number on, as far as they can be known yet.
  void Plan(std::uint64_t number);
  /// The record of its step, and its key.
  void Know(Turn& turn);
  Outcome Do(const Turn& turn, std::uint64_t number);
  Outcome Read(OperationKind kind, std::string_view key, std::uint64_t record);
  Outcome Write(OperationKind kind, std::string_view key, std::uint64_t record, std::string_view value);
  Outcome Scan(std::string_view key);
  // --- Several at once (worker_window.cc)
  void RunWindow(TimePoint deadline);
  void BeginOne(Place& place, std::uint64_t number, TimePoint started);
  bool IsOver(Place& place);
  Outcome TakeRead(Place& place);

  // --- What may come of them
  Outcome CheckValue(OperationKind kind, std::string_view key, std::uint64_t record, std::string_view value);
  Outcome Wrong(OperationKind kind, std::string_view key, std::size_t size, std::string_view why);
  Outcome TakeError(OperationKind kind, std::string_view key, const absl::Status& status);
  void EndIntervals();

  const Workload& workload_;
  const Share share_;
  Session& session_;
  const Clock& clock_;
  Shared& shared_;
  std::atomic<std::uint64_t>& done_;

  std::optional<Steps> steps_;
  std::optional<Zipfian> scan_lengths_;
  KeyMaker keys_;  // of what scans find
  std::vector<Turn> turns_;
  ValueMaker values_;
  const std::uint64_t first_write_number_;
  Random random_;      // which field an update changes, and how far scans go
  std::string value_;  // as last read

  TimePoint begin_;
  TimePoint end_;
  TimePoint last_;  // the last boundary between operations
  std::array<std::uint64_t, kOperationKinds> operations_{};
  std::array<Histogram, kOperationKinds> latency_;
  ErrorTally errors_;

  const Duration interval_;  // zero: no series
  TimePoint interval_end_;
  std::uint64_t interval_operations_ = 0;
  Histogram interval_latency_;
  std::vector<Interval> series_;
};

}  // namespace remora::bench
