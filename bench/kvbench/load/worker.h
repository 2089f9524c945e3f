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
#include "bench/kvbench/load/histogram.h"
#include "bench/kvbench/load/result.h"
#include "bench/kvbench/load/shared.h"
#include "bench/kvbench/load/target.h"
#include "bench/kvbench/load/workload.h"
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
/// Returns soon when `stop` is set.
void WaitUntil(TimePoint moment, const Clock& clock, const std::atomic<bool>& stop);

/// Said of a value whose record has other fields than the workload.
inline constexpr std::string_view kOtherFields =
    "were not written with these fields: load with the same ones";
/// Error of a value that does not belong to its record.
inline constexpr std::string_view kForeign = "are not a value that kvbench wrote for it";

/// Operations without end: the phase's time ends them.
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

/// The class has more than 25 methods and 15 fields, because one thread runs a phase in three ways (in turn,
/// with a window, timed) with one set of counts.
///
/// Thread safety: Prepare and Run by one thread; the results once Run has returned.
class Worker {
 public:
  /// All must outlive the worker. `shared`: of all workers of the phase.
  Worker(const Workload& workload, const Share& share, Session& session, const Clock& clock, Shared& shared);

  /// Does the work that should not be timed: draws the operations.
  void Prepare();
  void Run();

  TimePoint begin() const { return begin_; }
  TimePoint end() const { return end_; }
  const std::array<std::uint64_t, kOperationKinds>& operations() const { return operations_; }
  /// Values of those operations.
  const std::array<ValueBytes, kOperationKinds>& bytes() const { return bytes_; }
  const std::array<Histogram, kOperationKinds>& latency() const { return latency_; }
  /// One for each interval that ended before the last operation, and one for what is left; empty without
  /// intervals.
  const std::vector<Interval>& series() const { return series_; }
  const ErrorTally& errors() const { return errors_; }

 private:
  struct Place;
  /// Operations of one kind that began together, and ended together.
  struct Alike {
    OperationKind kind = OperationKind::kRead;
    TimePoint started;
    std::uint64_t operations = 0;
    ValueBytes bytes;
  };
  /// An operation of those that come one after the other.
  struct Turn {
    std::string_view key;
    std::uint64_t record = 0;  // until it is known, what was drawn for it
    OperationKind kind = OperationKind::kRead;
    bool is_known = false;  // and its key
  };
  /// So many are planned at once, so that what this takes does not stand between each and the next; no more
  /// than leave space in a CPU's first cache.
  static constexpr std::size_t kTurns = 64;
  enum class Outcome : std::uint8_t { kRight, kWrong, kPointless };

  Step NextStep(std::uint64_t number);
  std::uint64_t RecordOf(const Step& step);
  bool CountsBack() const;
  // Relaxed: it says only that going on is pointless, and publishes nothing.
  bool IsStopped() const { return stop_.load(std::memory_order_relaxed); }
  bool IsTimed(std::uint64_t number) const;
  /// REQUIRES: that one is not.
  std::uint64_t NextTimed(std::uint64_t number) const;
  bool IsPaced() const { return share_.phase != PhaseKind::kLoad && workload_.rate > 0; }
  /// Paced: the moment at which the operation should begin.
  TimePoint Due(std::uint64_t number) const;
  bool ReadsFirst(OperationKind kind) const;
  bool ReplacesField(OperationKind kind) const;
  /// Counts operations that did what they should.
  void Count(OperationKind kind, const ValueBytes& bytes, std::uint64_t operations = 1) {
    operations_[static_cast<std::size_t>(kind)] += operations;
    bytes_[static_cast<std::size_t>(kind)] += bytes;
    interval_operations_ += operations;
    interval_bytes_ += bytes;
  }
  /// Counts operations that were timed, and ended at last_.
  void CountTimed(OperationKind kind, TimePoint started, const ValueBytes& bytes,
                  std::uint64_t operations = 1);
  /// Says how far this thread is.
  void Tell(std::uint64_t operations) {
    // Relaxed, and no addition in one step: this thread is its only writer, and readers want just a number.
    done_.store(done_.load(std::memory_order_relaxed) + operations, std::memory_order_relaxed);
  }

  // --- One after the other (worker.cc)
  void RunInTurn(TimePoint deadline);
  /// False, of this and the next: going on is pointless.
  bool DoTimed(std::uint64_t number);
  [[gnu::noinline]] bool DoUntimed(std::uint64_t first, std::uint64_t end);
  /// When the operation begins, or should have. Waits for a moment that is still to come.
  TimePoint Begin(std::uint64_t number);
  /// The operations from this number on, as far as they can be known yet. Returns the one behind them.
  std::uint64_t Plan(std::uint64_t number);
  Turn& TurnOf(std::uint64_t number) { return turns_[number % kTurns]; }
  /// Turns the drawn number into the record of the turn, and makes its key.
  void Know(Turn& turn);
  /// Adds to moved_ the values that the operation reads and writes, so does each of those below.
  [[gnu::always_inline]] Outcome Do(const Turn& turn, std::uint64_t number);
  Outcome DoOther(const Turn& turn, std::uint64_t number);  // than a read
  [[gnu::always_inline]] Outcome Read(OperationKind kind, std::string_view key, std::uint64_t record);
  Outcome Write(OperationKind kind, std::string_view key, std::uint64_t record, std::string_view value);
  Outcome Scan(std::string_view key);
  // --- Several at once (worker_window.cc)
  void RunWindow(TimePoint deadline);
  void BeginOne(Place& place, std::uint64_t number, TimePoint started);
  bool IsOver(Place& place);
  void CountAlike(const Place& place);
  void EndAlike();
  Outcome TakeRead(Place& place);

  // --- What may come of them
  Outcome CheckValue(OperationKind kind, std::string_view key, std::uint64_t record, std::string_view value) {
    if (!workload_.verify || ValueBelongsTo(value, record)) return Outcome::kRight;
    return Wrong(kind, key, value.size(), kForeign);
  }
  Outcome Wrong(OperationKind kind, std::string_view key, std::size_t size, std::string_view why);
  Outcome TakeError(OperationKind kind, std::string_view key, const absl::Status& status);
  void EndIntervals();

  const Workload& workload_;
  const Share share_;
  Session& session_;
  const Clock& clock_;
  Shared& shared_;
  const std::atomic<bool>& stop_;
  std::atomic<std::uint64_t>& done_;

  std::optional<Steps> steps_;
  std::optional<Zipfian> scan_lengths_;
  KeyMaker keys_;  // of what scans find
  std::array<Turn, kTurns> turns_;
  KeyMaker place_keys_;  // of turns, or of those in flight at once
  ValueMaker values_;
  const std::uint64_t first_write_number_;
  Random random_;      // which field an update changes, and how far scans go
  std::string value_;  // as last read

  TimePoint begin_;
  TimePoint end_;
  TimePoint last_;  // the last boundary between operations
  std::array<std::uint64_t, kOperationKinds> operations_{};
  std::array<ValueBytes, kOperationKinds> bytes_{};
  std::array<Histogram, kOperationKinds> latency_;
  ErrorTally errors_;
  Alike alike_;       // not counted yet
  ValueBytes moved_;  // by the operation of those that come one after the other

  const Duration interval_;  // zero: no series
  TimePoint interval_end_;
  std::uint64_t interval_operations_ = 0;
  ValueBytes interval_bytes_;
  Histogram interval_latency_;
  std::vector<Interval> series_;
};

}  // namespace remora::bench
