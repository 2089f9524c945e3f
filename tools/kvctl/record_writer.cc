#include "tools/kvctl/record_writer.h"

#include <sysexits.h>

#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "client/client.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology.h"

namespace remora::kvctl {

std::optional<RecordWriter::Failure> RecordWriter::Put(std::vector<PutRequest> requests) {
  if (if_absent_) {
    for (PutRequest& request : requests) request.options.condition = Condition::Absent();
  }
  std::vector<bool> stored(requests.size());
  parts_.Divide(client_.topology(), std::span<const PutRequest>(requests),
                [](const PutRequest& request) { return request.key; });
  std::optional<Failure> first;
  for (const std::size_t shard : parts_.used()) {
    std::optional<Failure> failure = PutPart(shard);
    if (failure && history_.is_lost()) return failure;
    if (failure && (!first || failure->index < first->index)) first = std::move(failure);
  }
  return first;
}

std::optional<RecordWriter::Failure> RecordWriter::PutPart(std::size_t shard) {
  const CallPart<PutRequest, PutResult>& part = parts_[shard];
  std::vector<bool> stored(part.elements.size());
  for (;;) {
    const absl::StatusOr<Client*> server = client_.shard(shard);
    if (!server.ok()) return Failure{part.places.front(), Fail(server.status())};
    const std::span<PutResult> results = parts_.ResultsOf(shard);
    const absl::Status done = (*server)->MultiPut(part.elements, results);
    absl::StatusOr<ServerHistory::Step> step = ServerHistory::Step::kSame;
    if (done.ok()) step = history_.Advance(shard);
    if (!step.ok()) return Failure{part.places.front(), Fail(step.status())};
    if (*step == ServerHistory::Step::kSame) return Count(shard, stored);
    for (std::size_t i = 0; i < results.size(); ++i) stored[i] = stored[i] || results[i].status.ok();
  }
}

std::optional<RecordWriter::Failure> RecordWriter::Count(std::size_t shard, const std::vector<bool>& stored) {
  std::optional<Failure> failure;
  const std::span<const PutResult> results = parts_.ResultsOf(shard);
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
      const ShardPlace& place = client_.topology().shards()[shard];
      failure = Failure{parts_[shard].places[i], FromStatus(NameShardUnlessOfKey(place, status))};
      if (absl::IsResourceExhausted(status)) failure->outcome.exit_code = EX_CANTCREAT;
    }
  }
  return failure;
}

Outcome RecordWriter::End() {
  const absl::Status same = history_.CompareNow();
  return same.ok() ? Outcome() : Fail(same);
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
