#include "bench/worker.h"

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

// Sleeps for most of the time, then spins: the kernel wakes a sleeper some tens of microseconds late.
void WaitUntil(TimePoint moment, const Clock& clock) {
  constexpr auto kSpin = std::chrono::microseconds(100);
  for (TimePoint now = clock.Now(); now < moment; now = clock.Now()) {
    if (moment - now > 2 * kSpin) std::this_thread::sleep_for(moment - now - kSpin);
  }
}

}  // namespace

Worker::Worker(const Workload& workload, const Share& share, Session& session, const Clock& clock,
               Shared& shared)
    : workload_(workload),
      share_(share),
      session_(session),
      clock_(clock),
      shared_(shared),
      done_(shared.progress()[share.worker].done),
      keys_(workload.keys),
      values_(workload.fields),
      // Far from those of the other threads, of the other phases, and of runs with other seeds.
      first_write_number_(
          Mix64(Mix64(workload.seed) + 4 * share.worker + static_cast<std::uint64_t>(share.phase))),
      fields_(Mix64(first_write_number_)),
      interval_(share.phase == PhaseKind::kRun ? Seconds(workload.interval_seconds) : Duration::zero()) {}

void Worker::Prepare() {
  done_.store(0, std::memory_order_relaxed);
  if (share_.phase == PhaseKind::kLoad) return;
  steps_.emplace(workload_, std::max<std::uint64_t>(share_.operations, 1), Random(first_write_number_),
                 share_.worker, share_.workers);
}

void Worker::Run() {
  begin_ = last_ = clock_.Now();
  interval_end_ = begin_ + interval_;
  const TimePoint deadline = share_.seconds > 0 ? begin_ + Seconds(share_.seconds) : TimePoint::max();
  for (std::uint64_t number = 0; number < share_.operations && last_ < deadline; ++number) {
    // Relaxed: it says only that going on is pointless, and publishes nothing.
    if (shared_.stop().load(std::memory_order_relaxed)) break;
    const Step step = NextStep(number);
    const bool timed = IsTimed(number);
    const TimePoint started = timed ? Begin(number) : last_;
    const Outcome outcome = Do(step, number);
    if (timed) last_ = clock_.Now();
    // Relaxed, and a store, not an addition: this thread is its only writer, and readers want just a number.
    done_.store(number + 1, std::memory_order_relaxed);
    if (outcome == Outcome::kPointless) break;
    if (outcome == Outcome::kWrong) continue;
    const auto kind = static_cast<std::size_t>(step.kind);
    ++operations_[kind];
    const auto latency = std::chrono::duration_cast<std::chrono::nanoseconds>(last_ - started);
    if (timed) latency_[kind].Add(static_cast<std::uint64_t>(latency.count()));
    if (interval_ > Duration::zero()) {
      if (last_ >= interval_end_) EndIntervals();
      ++interval_operations_;
      if (timed) interval_latency_.Add(static_cast<std::uint64_t>(latency.count()));
    }
  }
  end_ = clock_.Now();
  if (interval_operations_ > 0) series_.push_back({interval_operations_, interval_latency_.ToSparse()});
}

void Worker::EndIntervals() {
  for (; last_ >= interval_end_; interval_end_ += interval_) {
    series_.push_back({interval_operations_, interval_latency_.ToSparse()});
    interval_operations_ = 0;
    interval_latency_ = Histogram();
  }
  // What this took is no part of the next operation.
  last_ = clock_.Now();
}

Step Worker::NextStep(std::uint64_t number) {
  if (share_.phase != PhaseKind::kLoad) return steps_->Next();
  return {OperationKind::kInsert, share_.first_record + number};
}

std::uint64_t Worker::RecordOf(const Step& step) {
  if (share_.phase == PhaseKind::kLoad) return step.drawn;
  if (step.kind == OperationKind::kInsert) return shared_.inserted().Take();
  const auto distribution = workload_.distribution.kind;
  const bool counts_back = distribution == RequestDistribution::Kind::kLatest ||
                           distribution == RequestDistribution::Kind::kExponential;
  return counts_back ? shared_.inserted().end() - 1 - step.drawn : workload_.first_record + step.drawn;
}

bool Worker::IsTimed(std::uint64_t number) const {
  // With a rate, the clock says when to begin, so each operation is timed.
  return workload_.time_every == 1 || workload_.rate > 0 || number % workload_.time_every == 0;
}

TimePoint Worker::Begin(std::uint64_t number) {
  if (share_.phase == PhaseKind::kLoad || workload_.rate <= 0) {
    return workload_.time_every == 1 ? last_ : clock_.Now();
  }
  const double due = static_cast<double>(number * share_.workers + share_.worker) / workload_.rate;
  const TimePoint moment = begin_ + Seconds(due);
  WaitUntil(moment, clock_);
  return moment;
}

Worker::Outcome Worker::Do(const Step& step, std::uint64_t number) {
  const std::uint64_t record = RecordOf(step);
  const std::uint64_t write_number = first_write_number_ + number;
  const std::string_view key = keys_.Make(record);
  const bool replaces_field =
      workload_.fields.count > 1 && !workload_.write_all_fields &&
      (step.kind == OperationKind::kUpdate || step.kind == OperationKind::kReadModifyWrite);
  if (step.kind == OperationKind::kRead || step.kind == OperationKind::kReadModifyWrite || replaces_field) {
    const Outcome outcome = Read(step.kind, key, record);
    if (outcome != Outcome::kRight || step.kind == OperationKind::kRead) return outcome;
  }
  if (!replaces_field) return Write(step.kind, key, record, values_.Make(record, write_number));
  const std::uint64_t field = fields_.NextBelow(workload_.fields.count);
  if (values_.ReplaceField(record, field, write_number, &value_))
    return Write(step.kind, key, record, value_);
  return Wrong(step.kind, key, "were not written with these fields: load with the same ones");
}

Worker::Outcome Worker::Read(OperationKind kind, std::string_view key, std::uint64_t record) {
  const absl::Status status = session_.Get(key, &value_);
  if (!status.ok()) return TakeError(kind, key, status);
  if (!workload_.verify || ValueBelongsTo(value_, record)) return Outcome::kRight;
  return Wrong(kind, key, "are not a value that kvbench wrote for it");
}

Worker::Outcome Worker::Write(OperationKind kind, std::string_view key, std::uint64_t record,
                              std::string_view value) {
  const absl::Status status = session_.Put(key, value);
  if (!status.ok()) return TakeError(kind, key, status);
  if (kind == OperationKind::kInsert && share_.phase != PhaseKind::kLoad) {
    // Waits where another thread's insert takes as long as very many others; not for one that failed.
    while (!shared_.inserted().Acknowledge(record) && !shared_.stop().load(std::memory_order_relaxed)) {
      std::this_thread::yield();
    }
  }
  return Outcome::kRight;
}

Worker::Outcome Worker::Wrong(OperationKind kind, std::string_view key, std::string_view why) {
  errors_.Add(kind, "wrong value",
              absl::StrCat("the ", value_.size(), " bytes read for ", AbslView(key), " ", AbslView(why)));
  return Outcome::kWrong;
}

Worker::Outcome Worker::TakeError(OperationKind kind, std::string_view key, const absl::Status& status) {
  if (status.code() == absl::StatusCode::kNotFound) {
    errors_.Add(kind, "not found",
                absl::StrCat(AbslView(key), " is missing: load first, with the same --records or more"));
    return Outcome::kWrong;
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
