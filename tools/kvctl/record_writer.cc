#include "tools/kvctl/record_writer.h"

#include <sysexits.h>

#include "absl/strings/str_format.h"

namespace remora::kvctl {

std::optional<RecordWriter::Failure> RecordWriter::Put(std::vector<PutRequest> requests) {
  if (if_absent_) {
    for (PutRequest& request : requests) request.options.condition = Condition::Absent();
  }
  std::vector<PutResult> results(requests.size());
  client_.MultiPut(requests, results).IgnoreError();  // the results say it
  std::optional<Failure> failure;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const absl::Status& status = results[i].status;
    if (status.ok()) {
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

std::string RecordWriter::Summary() const {
  std::string text = absl::StrFormat("%d records were imported, %d were there already, %d had expired",
                                     imported_, already_there_, expired_);
  if (unknown_ > 0) text += absl::StrFormat(", of %d it is not known", unknown_);
  return text;
}

}  // namespace remora::kvctl
