#include "bench/worker.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora::bench {
namespace {

// Sleeps for most of the time, then spins: the kernel wakes a sleeper some tens of microseconds late.
void WaitUntil(TimePoint moment, const Clock& clock) {
  constexpr auto kSpin = std::chrono::microseconds(100);
  for (TimePoint now = clock.Now(); now < moment; now = clock.Now()) {
    if (moment - now > 2 * kSpin) std::this_thread::sleep_for(moment - now - kSpin);
  }
}

}  // namespace

Worker::Worker(const WorkloadOptions& options, const Share& share, Session& session, const Clock& clock,
               std::atomic<bool>& stop)
    : options_(options),
      share_(share),
      session_(session),
      clock_(clock),
      stop_(stop),
      values_(options.value_size),
      // Far from those of the other threads, of the other phase, and of runs with other seeds.
      first_write_number_(
          Mix64(Mix64(options.seed) + 2 * share.worker + static_cast<std::uint64_t>(share.loading))) {}

void Worker::Prepare() {
  if (share_.loading) return;
  const RecordChooser chooser(options_.distribution, options_.records);
  steps_.emplace(options_.mix, chooser, std::max<std::uint64_t>(share_.operations, 1),
                 Random(first_write_number_));
}

void Worker::Run() {
  begin_ = last_ = clock_.Now();
  const bool has_deadline = !share_.loading && options_.duration.count() > 0;
  const TimePoint deadline =
      has_deadline ? begin_ + std::chrono::duration_cast<Duration>(options_.duration) : TimePoint::max();
  for (std::uint64_t number = 0; number < share_.operations && last_ < deadline; ++number) {
    // Relaxed: it says only that going on is pointless, and publishes nothing.
    if (stop_.load(std::memory_order_relaxed)) break;
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
    if (timed) {
      const auto latency = std::chrono::duration_cast<std::chrono::nanoseconds>(last_ - started);
      latency_[kind].Add(static_cast<std::uint64_t>(latency.count()));
    }
  }
  end_ = clock_.Now();
}

Step Worker::NextStep(std::uint64_t number) {
  if (!share_.loading) return steps_->Next();
  return {OperationKind::kInsert, static_cast<std::uint32_t>(share_.first_record + number)};
}

bool Worker::IsTimed(std::uint64_t number) const {
  // With a rate, the clock says when to begin, so each operation is timed.
  return options_.time_every == 1 || options_.rate > 0 || number % options_.time_every == 0;
}

TimePoint Worker::Begin(std::uint64_t number) {
  if (share_.loading || options_.rate <= 0) return options_.time_every == 1 ? last_ : clock_.Now();
  const double due = static_cast<double>(number * share_.workers + share_.worker) / options_.rate;
  const TimePoint moment = begin_ + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(due));
  WaitUntil(moment, clock_);
  return moment;
}

Worker::Outcome Worker::Do(const Step& step, std::uint64_t number) {
  const KeyText key(step.record);
  const bool is_read = step.kind == OperationKind::kRead;
  const absl::Status status =
      is_read ? session_.Get(key.view(), &value_)
              : session_.Put(key.view(), values_.Make(step.record, first_write_number_ + number));
  if (!status.ok()) return TakeError(key.view(), status);
  if (!is_read || !options_.verify || ValueBelongsTo(value_, step.record)) return Outcome::kRight;
  errors_.Add("wrong value", absl::StrCat("the ", value_.size(), " bytes read for ", AbslView(key.view()),
                                          " are not a value that kvbench wrote for it"));
  return Outcome::kWrong;
}

Worker::Outcome Worker::TakeError(std::string_view key, const absl::Status& status) {
  if (status.code() == absl::StatusCode::kNotFound) {
    errors_.Add("not found",
                absl::StrCat(AbslView(key), " is missing: load first, with the same --records or more"));
    return Outcome::kWrong;
  }
  std::string message(status.message());
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    message += "; in this version the log only fills: give the store more --memory, or write less";
  }
  errors_.Add(absl::StatusCodeToString(status.code()), message);
  stop_.store(true, std::memory_order_relaxed);
  return Outcome::kPointless;
}

}  // namespace remora::bench
