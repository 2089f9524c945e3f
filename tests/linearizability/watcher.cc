#include "tests/linearizability/watcher.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "store/format/wire/resume_token.h"

namespace remora::linear {

void Watcher::Do(KeyValue& kv) {
  if (Below(3) == 0) return Worker::Do(kv);
  if (watch_ == nullptr) return Begin(kv);
  const Time begun = now_();
  const std::uint64_t end = shared_.changes_end();
  const absl::StatusOr<bool> came = watch_->Next(std::chrono::milliseconds(Below(4)));
  if (came.ok() && *came) {
    Note();
  } else if (came.ok()) {
    // Else nothing came in time, but will: the server finds its position in the log beside its other work.
    const std::optional<ChangePosition> position = ReadChangeToken(watch_->resume_token());
    if (position && position->sequence > end) history_.watches.back().caught_up = begun;
  } else if (absl::IsOutOfRange(came.status())) {
    Leave();
    token_.clear();
  } else if (!absl::IsUnavailable(came.status()) && !absl::IsDeadlineExceeded(came.status())) {
    complaints_.push_back("a watch ends: " + came.status().ToString());
  }
  // A watcher that begins again goes on where it was.
  if (Below(200) == 0) Leave();
}

void Watcher::Begin(KeyValue& kv) {
  if (Below(30) == 0) token_.clear();
  absl::StatusOr<std::unique_ptr<KeyWatch>> watch = kv.Watch({.resume_token = token_});
  if (absl::IsOutOfRange(watch.status())) token_.clear();
  if (!watch.ok()) return;
  watch_ = *std::move(watch);
  if (token_.empty()) {
    WatchResult& result = history_.watches.emplace_back();
    result.client = client_;
    result.opened = now_();
    token_ = watch_->resume_token();
  }
}

void Watcher::Note() {
  WatchResult::Change& change = history_.watches.back().changes.emplace_back();
  change.sequence = watch_->sequence();
  change.key = watch_->key();
  change.version = watch_->version();
  change.shown = now_();
  if (watch_->kind() == ChangeKind::kPut) change.value = NameOf(change.key, std::string(watch_->value()));
  token_ = watch_->resume_token();
}

}  // namespace remora::linear
