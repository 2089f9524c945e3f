#include "tools/kvctl/record_writer.h"

#include <sysexits.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace remora::kvctl {

std::optional<RecordWriter::Failure> RecordWriter::Put(std::vector<PutRequest> requests) {
  if (if_absent_) {
    for (PutRequest& request : requests) request.options.condition = Condition::Absent();
  }
  std::vector<bool> stored(requests.size());
  for (;;) {
    std::vector<PutResult> results(requests.size());
    const absl::Status done = client_.MultiPut(requests, results);
    absl::StatusOr<HistoryCheck::Step> step = HistoryCheck::Step::kSame;
    if (done.ok()) step = history_.Advance();
    if (!step.ok()) return Failure{0, Fail(step.status())};
    if (*step == HistoryCheck::Step::kSame) return Count(results, stored);
    for (std::size_t i = 0; i < results.size(); ++i) stored[i] = stored[i] || results[i].status.ok();
  }
}

std::optional<RecordWriter::Failure> RecordWriter::Count(const std::vector<PutResult>& results,
                                                         const std::vector<bool>& stored) {
  std::optional<Failure> failure;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const absl::Status& status = results[i].status;
    if (status.ok() || (stored[i] && absl::IsAlreadyExists(status))) {
      ++imported_;
    } else if (absl::IsAlreadyExists(status)) {
      ++already_there_;
    } else if (absl::IsOutOfRange(status)) {
      ++expired_;
    } else {
      if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsUnknown(status)) {
        ++unknown_;
      }
      if (failure) continue;
      failure = Failure{i, FromStatus(status)};
      if (absl::IsResourceExhausted(status)) failure->outcome.exit_code = EX_CANTCREAT;
    }
  }
  return failure;
}

Outcome RecordWriter::End() {
  const absl::StatusOr<HistoryCheck::Step> step = history_.CompareNow();
  return step.ok() ? Outcome() : Fail(step.status());
}

Outcome RecordWriter::Fail(const absl::Status& status) {
  if (history_.is_lost()) {
    unknown_ += imported_ + already_there_;
    imported_ = already_there_ = 0;
  }
  return FromStatus(status);
}

std::string RecordWriter::Summary() const {
  std::string text = absl::StrFormat("%d records were imported, %d were there already, %d had expired",
                                     imported_, already_there_, expired_);
  if (unknown_ > 0) text += absl::StrFormat(", of %d it is not known", unknown_);
  return text;
}

}  // namespace remora::kvctl
