#include "bench/kvbench/load/worker.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora::bench {
namespace {

Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void WaitUntil(TimePoint moment, const Clock& clock, const std::atomic<bool>& stop) {
  constexpr Duration kSpin = std::chrono::microseconds(100);
  constexpr Duration kLook = std::chrono::milliseconds(100);
  for (TimePoint now = clock.Now(); now < moment && !stop.load(std::memory_order_relaxed);
       now = clock.Now()) {
    if (moment - now > 2 * kSpin) clock.Sleep(std::min(moment - now - kSpin, kLook));
  }
}

Worker::Worker(const Workload& workload, const Share& share, Session& session, const Clock& clock,
               Shared& shared)
    : workload_(workload),
      share_(share),
      session_(session),
      clock_(clock),
      shared_(shared),
      stop_(shared.stop()),
      done_(shared.progress()[share.worker].done),
      keys_(workload.keys),
      place_keys_(workload.keys, std::max<std::size_t>(kTurns, workload.depth)),
      values_(workload.fields),
      // Far from those of the other threads, of the other phases, and of runs with other seeds.
      first_write_number_(
          Mix64(Mix64(workload.seed) + 4 * share.worker + static_cast<std::uint64_t>(share.phase))),
      random_(Mix64(first_write_number_)),
      interval_(share.phase == PhaseKind::kRun ? Seconds(workload.interval_seconds) : Duration::zero()) {}

void Worker::Prepare() {
  done_.store(0, std::memory_order_relaxed);
  if (share_.phase == PhaseKind::kLoad) return;
  steps_.emplace(workload_, std::max<std::uint64_t>(share_.operations, 1), Random(first_write_number_),
                 share_.worker, share_.workers);
  const ScanLengths& lengths = workload_.scan_lengths;
  if (workload_.mix.scan > 0 && lengths.zipfian) scan_lengths_.emplace(lengths.most - lengths.least + 1);
}

void Worker::Run() {
  begin_ = last_ = clock_.Now();
  interval_end_ = begin_ + interval_;
  const TimePoint deadline = share_.seconds > 0 ? begin_ + Seconds(share_.seconds) : TimePoint::max();
  if (workload_.depth > 1) {
    RunWindow(deadline);
  } else {
    RunInTurn(deadline);
  }
  end_ = clock_.Now();
  if (interval_ > Duration::zero() && interval_operations_ > 0) {
    series_.push_back({interval_operations_, interval_bytes_, interval_latency_.ToSparse()});
  }
}

void Worker::RunInTurn(TimePoint deadline) {
  std::uint64_t planned = 0;
  for (std::uint64_t number = 0; number < share_.operations && last_ < deadline && !IsStopped();) {
    if (number == planned) planned = Plan(number);
    const std::uint64_t first = number;
    const bool timed = IsTimed(number);
    number = timed ? number + 1 : std::min(planned, NextTimed(number));
    const bool goes_on = timed ? DoTimed(first) : DoUntimed(first, number);
    Tell(number - first);
    if (!goes_on) break;
  }
}

bool Worker::DoTimed(std::uint64_t number) {
  const TimePoint started = Begin(number);
  if (IsPaced() && IsStopped()) return false;  // perhaps before it is due
  Turn& turn = TurnOf(number);
  if (!turn.is_known) Know(turn);
  moved_ = {};
  const Outcome outcome = Do(turn, number);
  last_ = clock_.Now();
  if (outcome == Outcome::kRight) CountTimed(turn.kind, started, moved_);
  return outcome != Outcome::kPointless;
}

// The work between an operation and the next is short, and depends on no value that was read: a CPU
// that waits for one's value then begins the next meanwhile.
bool Worker::DoUntimed(std::uint64_t first, std::uint64_t end) {
  for (std::uint64_t number = first; number < end && !IsStopped(); ++number) {
    Turn& turn = TurnOf(number);
    if (!turn.is_known) Know(turn);
    moved_ = {};
    const Outcome outcome = Do(turn, number);
    if (outcome == Outcome::kRight) {
      Count(turn.kind, moved_);
    } else if (outcome == Outcome::kPointless) {
      return false;
    }
  }
  return true;
}

void Worker::CountTimed(OperationKind kind, TimePoint started, const ValueBytes& bytes,
                        std::uint64_t operations) {
  const auto latency = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(last_ - started).count());
  latency_[static_cast<std::size_t>(kind)].Add(latency, operations);
  if (interval_ > Duration::zero()) {
    if (last_ >= interval_end_) EndIntervals();
    interval_latency_.Add(latency, operations);
  }
  Count(kind, bytes, operations);
}

void Worker::EndIntervals() {
  for (; last_ >= interval_end_; interval_end_ += interval_) {
    series_.push_back({interval_operations_, interval_bytes_, interval_latency_.ToSparse()});
    interval_operations_ = 0;
    interval_bytes_ = {};
    interval_latency_ = Histogram();
  }
  // The time for this is no part of the next operation.
  last_ = clock_.Now();
}

Step Worker::NextStep(std::uint64_t number) {
  if (share_.phase != PhaseKind::kLoad) return steps_->Next();
  return {OperationKind::kInsert, share_.first_record + number};
}

std::uint64_t Worker::Plan(std::uint64_t number) {
  const std::size_t count = std::min<std::uint64_t>(kTurns, share_.operations - number);
  const bool loads = share_.phase == PhaseKind::kLoad;
  const std::uint64_t first = loads ? 0 : workload_.first_record;
  const bool counts_back = CountsBack();
  // `number` is a multiple of kTurns: it is 0, or what this returned.
  for (std::size_t i = 0; i < count; ++i) {
    Turn& turn = turns_[i];
    const Step step = NextStep(number + i);
    turn.kind = step.kind;
    // The results of earlier inserts decide which record the next insert is for, and which records are the
    // newest.
    turn.is_known = loads || (step.kind != OperationKind::kInsert && !counts_back);
    turn.record = turn.is_known ? step.drawn + first : step.drawn;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Turn& turn = turns_[i];
    if (turn.is_known) turn.key = place_keys_.Make(turn.record, i);
  }
  // The time for this is no part of the next operation.
  if (workload_.time_every == 1) last_ = clock_.Now();
  return number + count;
}

void Worker::Know(Turn& turn) {
  turn.record = RecordOf({turn.kind, turn.record});
  turn.key = place_keys_.Make(turn.record, static_cast<std::size_t>(&turn - turns_.data()));
  turn.is_known = true;
}

bool Worker::CountsBack() const {
  const auto distribution = workload_.distribution.kind;
  return distribution == RequestDistribution::Kind::kLatest ||
         distribution == RequestDistribution::Kind::kExponential;
}

std::uint64_t Worker::RecordOf(const Step& step) {
  if (share_.phase == PhaseKind::kLoad) return step.drawn;
  if (step.kind == OperationKind::kInsert) return shared_.inserted().Take();
  return CountsBack() ? shared_.inserted().end() - 1 - step.drawn : workload_.first_record + step.drawn;
}

bool Worker::IsTimed(std::uint64_t number) const {
  // With a rate, the clock says when to begin, so each operation is timed.
  return workload_.time_every == 1 || workload_.rate > 0 || number % workload_.time_every == 0;
}

std::uint64_t Worker::NextTimed(std::uint64_t number) const {
  return number + workload_.time_every - number % workload_.time_every;
}

TimePoint Worker::Due(std::uint64_t number) const {
  return begin_ + Seconds(static_cast<double>(number * share_.workers + share_.worker) / workload_.rate);
}

TimePoint Worker::Begin(std::uint64_t number) {
  if (!IsPaced()) return workload_.time_every == 1 ? last_ : clock_.Now();
  const TimePoint moment = Due(number);
  WaitUntil(moment, clock_, stop_);
  return moment;
}

bool Worker::ReplacesField(OperationKind kind) const {
  return workload_.fields.count > 1 && !workload_.write_all_fields &&
         (kind == OperationKind::kUpdate || kind == OperationKind::kReadModifyWrite);
}

bool Worker::ReadsFirst(OperationKind kind) const {
  return kind == OperationKind::kRead || kind == OperationKind::kReadModifyWrite || ReplacesField(kind);
}

inline Worker::Outcome Worker::Read(OperationKind kind, std::string_view key, std::uint64_t record) {
  const absl::Status status = session_.Get(key, &value_);
  if (!status.ok()) return TakeError(kind, key, status);
  moved_.read += value_.size();
  return CheckValue(kind, key, record, value_);
}

inline Worker::Outcome Worker::Do(const Turn& turn, std::uint64_t number) {
  return turn.kind == OperationKind::kRead ? Read(turn.kind, turn.key, turn.record) : DoOther(turn, number);
}

Worker::Outcome Worker::DoOther(const Turn& turn, std::uint64_t number) {
  const OperationKind kind = turn.kind;
  const std::string_view key = turn.key;
  const std::uint64_t record = turn.record;
  if (kind == OperationKind::kScan) return Scan(key);
  if (ReadsFirst(kind)) {
    const Outcome outcome = Read(kind, key, record);
    if (outcome != Outcome::kRight) return outcome;
  }
  const std::uint64_t write_number = first_write_number_ + number;
  if (!ReplacesField(kind)) return Write(kind, key, record, values_.Make(record, write_number));
  const std::uint64_t field = random_.NextBelow(workload_.fields.count);
  if (values_.ReplaceField(record, field, write_number, &value_)) return Write(kind, key, record, value_);
  return Wrong(kind, key, value_.size(), kOtherFields);
}

Worker::Outcome Worker::Write(OperationKind kind, std::string_view key, std::uint64_t record,
                              std::string_view value) {
  const absl::Status status = session_.Put(key, value);
  if (!status.ok()) return TakeError(kind, key, status);
  moved_.written += value.size();
  if (kind == OperationKind::kInsert && share_.phase != PhaseKind::kLoad) {
    // Waits where another thread's insert takes as long as very many others; not for one that failed.
    while (!shared_.inserted().Acknowledge(record) && !IsStopped()) std::this_thread::yield();
  }
  return Outcome::kRight;
}

Worker::Outcome Worker::Scan(std::string_view key) {
  const std::string first(key);
  const ScanLengths& lengths = workload_.scan_lengths;
  const std::uint64_t length =
      lengths.least +
      (scan_lengths_ ? scan_lengths_->Next(random_) : random_.NextBelow(lengths.most - lengths.least + 1));
  Outcome outcome = Outcome::kRight;
  std::uint64_t shown = 0;
  std::string before;
  const absl::Status status =
      session_.Scan(first, length, [&](std::string_view found, std::string_view value) {
        ++shown;
        moved_.read += value.size();
        if (!workload_.verify || outcome != Outcome::kRight) return;
        const std::optional<std::uint64_t> record = keys_.RecordOf(found);
        if (shown == 1 ? found != first : found <= before) {
          outcome = Wrong(OperationKind::kScan, found, value.size(), "are not what comes next");
        } else if (record) {
          outcome = CheckValue(OperationKind::kScan, found, *record, value);
        }
        before = found;
      });
  if (!status.ok()) return TakeError(OperationKind::kScan, first, status);
  if (shown == 0)
    return TakeError(OperationKind::kScan, first,
                     absl::NotFoundError("scan: no key is there; load the records first"));
  return outcome;
}

Worker::Outcome Worker::Wrong(OperationKind kind, std::string_view key, std::size_t size,
                              std::string_view why) {
  errors_.Add(kind, "wrong value",
              absl::StrCat("the ", size, " bytes read for ", AbslView(key), " ", AbslView(why)));
  return Outcome::kWrong;
}

Worker::Outcome Worker::TakeError(OperationKind kind, std::string_view key, const absl::Status& status) {
  if (status.code() == absl::StatusCode::kNotFound) {
    errors_.Add(kind, "not found",
                absl::StrCat(AbslView(key), " is missing: load first, with the same --records or more"));
    return Outcome::kWrong;
  }
  if (status.code() == absl::StatusCode::kCancelled) {  // BenchClock: the phase ends, and did not fail
    shared_.stop().store(true, std::memory_order_relaxed);
    return Outcome::kPointless;
  }
  std::string message(status.message());
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    message += "; give the store more --memory, or write less";
  }
  errors_.Add(kind, absl::StatusCodeToString(status.code()), message);
  shared_.stop().store(true, std::memory_order_relaxed);
  return Outcome::kPointless;
}

}  // namespace remora::bench
