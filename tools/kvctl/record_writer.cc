#include "tools/kvctl/record_writer.h"

#include <sysexits.h>

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "client/client.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology.h"

namespace remora::kvctl {
namespace {

// Lost connections that the put of a part outlasts.
constexpr int kMaxLost = 8;

/// Returns whether a write that ended so may have been done all the same.
bool IsInDoubt(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsUnknown(status);
}

}  // namespace

std::optional<RecordWriter::Failure> RecordWriter::Put(std::vector<PutRequest> requests) {
  if (if_absent_) {
    for (PutRequest& request : requests) request.options.condition = Condition::Absent();
  }
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
  std::vector<Stored> stored(part.elements.size(), Stored::kNo);
  for (int lost = 0;;) {
    const absl::StatusOr<Client*> server = client_.shard(shard);
    if (!server.ok()) return Failure{part.places.front(), Fail(server.status())};
    const std::span<PutResult> results = parts_.ResultsOf(shard);
    const absl::Status done = (*server)->MultiPut(part.elements, results);
    const bool again = absl::IsUnavailable(done) && ++lost <= kMaxLost && (*server)->Ping().ok();
    if (!done.ok() && !again) return Count(shard, stored);
    const absl::StatusOr<ServerHistory::Step> step = history_.Advance(shard);
    if (!step.ok()) return Failure{part.places.front(), Fail(step.status())};
    if (*step == ServerHistory::Step::kSame && !again) return Count(shard, stored);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].status.ok()) stored[i] = Stored::kYes;
      if (IsInDoubt(results[i].status)) stored[i] = std::max(stored[i], Stored::kPerhaps);
    }
  }
}

std::optional<RecordWriter::Failure> RecordWriter::Count(std::size_t shard, std::span<const Stored> stored) {
  std::optional<Failure> failure;
  const std::span<const PutResult> results = parts_.ResultsOf(shard);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const absl::Status& status = results[i].status;
    if (status.ok() || (absl::IsAlreadyExists(status) && IsOurs(parts_[shard].elements[i], stored[i]))) {
      ++imported_;
    } else if (absl::IsAlreadyExists(status)) {
      ++already_there_;
    } else if (absl::IsOutOfRange(status)) {
      ++expired_;
    } else {
      if (IsInDoubt(status)) ++unknown_;
      if (failure) continue;
      const ShardPlace& place = client_.topology().shards()[shard];
      failure = Failure{parts_[shard].places[i], FromStatus(NameShardUnlessOfKey(place, status))};
      if (absl::IsResourceExhausted(status)) failure->outcome.exit_code = EX_CANTCREAT;
    }
  }
  return failure;
}

bool RecordWriter::IsOurs(const PutRequest& request, Stored stored) {
  if (stored != Stored::kPerhaps) return stored == Stored::kYes;
  const absl::StatusOr<std::string> value = client_.Get(request.key);
  return value.ok() && *value == request.value;
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
