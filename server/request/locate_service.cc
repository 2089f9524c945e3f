#include "server/request/locate_service.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/request/request_decoder.h"
#include "store/format/memory/record.h"
#include "store/format/wire/located_value.h"
#include "store/format/wire/messages.h"
#include "store/region/atomic_word.h"

namespace remora {

LocateService::LocateService(ServerStore& store, ReplySender& replies, ColdReads& reads)
    : store_(store), replies_(replies), reads_(reads), next_(std::make_unique<ColdRead>()) {}

bool LocateService::Take(const PendingRequest& pending) {
  const Request& request = pending.request;
  const std::string_view shared_key = pending.session->DecodePayload(request).key;
  if (shared_key.data() == nullptr || request.value_size != 0) {
    replies_.Answer(pending, absl::InvalidArgumentError(
                                 "protocol error: a key out of bounds, or outside the staging buffer"));
    return true;
  }
  std::array<char, kMaxKeySize> copy;
  std::memcpy(copy.data(), shared_key.data(), shared_key.size());
  const std::string_view key(copy.data(), shared_key.size());
  if (!VerifyPayload(&request, HashKey(key), HashValue(nullptr, 0))) {
    replies_.Answer(pending,
                    absl::DataLossError(
                        "locate: the request was damaged in flight: the key does not match its checksum"));
    return true;
  }
  if (!reads_.has_pool()) return Answer(pending, store_.Locate(key));
  const absl::StatusOr<std::optional<Location>> location = store_.BeginLocate(key, next_.get());
  if (!location.ok() || location->has_value()) return Answer(pending, location);
  if (reads_.TryAtOnce(next_.get())) {
    const absl::StatusOr<std::optional<Location>> found = FinishLocate(pending, next_.get());
    if (IsPostponed(found.status())) {
      if (!MayKeep(*next_)) return false;
      in_flight_.emplace(next_.get(), pending);
      Keep(std::exchange(next_, std::make_unique<ColdRead>()));
      return true;
    }
    if (!found.ok() || found->has_value()) return Answer(pending, found, next_.get());
  }
  Begin(pending, std::exchange(next_, std::make_unique<ColdRead>()));
  return true;
}

bool LocateService::AnswerRead(std::vector<PendingRequest>* postponed) {
  ColdReads::List done;
  reads_.TakeForLocates(&done);
  if (!kept_.empty() && store_.clock().Now() >= next_try_) {
    std::ranges::move(kept_, std::back_inserter(done));
    kept_.clear();
    kept_bytes_ = 0;
  }
  for (std::unique_ptr<ColdRead>& read : done) Finish(std::move(read), postponed);
  return !done.empty();
}

void LocateService::Finish(std::unique_ptr<ColdRead> read, std::vector<PendingRequest>* postponed) {
  // An answer may drop its session, and this then forgets the session's other requests.
  const auto found = in_flight_.find(read.get());
  const PendingRequest pending = found->second;
  if (pending.session == nullptr) {
    in_flight_.erase(found);
    return;
  }
  const absl::StatusOr<std::optional<Location>> location = FinishLocate(pending, read.get());
  const bool is_postponed = IsPostponed(location.status());
  if (is_postponed && MayKeep(*read)) return Keep(std::move(read));
  in_flight_.erase(found);
  if (is_postponed) return postponed->push_back(pending);
  if (!location.ok() || location->has_value()) {
    Answer(pending, location, read.get());
    return;
  }
  store_.Add(Metric::kColdReadsRepeated, 1);
  Begin(pending, std::move(read));
}

bool LocateService::MayKeep(const ColdRead& read) const {
  return kept_bytes_ + read.value.size() <= kMaxKeptBytes;
}

void LocateService::Keep(std::unique_ptr<ColdRead> read) {
  kept_bytes_ += read->value.size();
  kept_.push_back(std::move(read));
  next_try_ = store_.clock().Now() + kSpacePause;
}

void LocateService::Forget(ClientSession& session) {
  for (auto& [read, pending] : in_flight_) pending.Forget(session);
}

void LocateService::Begin(const PendingRequest& pending, std::unique_ptr<ColdRead> read) {
  in_flight_.emplace(read.get(), pending);
  reads_.Begin(std::move(read));
}

absl::StatusOr<std::optional<Location>> LocateService::FinishLocate(const PendingRequest& pending,
                                                                    ColdRead* read) {
  const bool may_stay = pending.request.condition == kTakesValue && read->has_value &&
                        pending.session->TakesLongReply(read->value.size());
  return store_.FinishLocate(read, may_stay);
}

bool LocateService::Answer(const PendingRequest& pending,
                           const absl::StatusOr<std::optional<Location>>& location, const ColdRead* read) {
  if (IsPostponed(location.status())) return false;
  Reply reply{.request_id = pending.request.request_id};
  absl::Status status = location.status();
  if (status.ok() && (*location)->slot == 0) {
    reply.version = (*location)->version;
    reply.result = static_cast<std::int64_t>(read->header.expiry_ms);
    reply.slot = LocatedValueChecksum(reply, read->key_hash, read->value, store_.superblock().incarnation);
    replies_.SendValue(*pending.session, reply, read->value);
    return true;
  }
  if (status.ok()) {
    reply.version = (*location)->version;
    reply.slot = (*location)->slot;
  } else if (absl::IsNotFound(status)) {
    reply.version =
        LoadWord(store_.superblock().slots_word, std::memory_order_relaxed);  // K3 of known_slots.h
  } else if (absl::IsDataLoss(status)) {
    // A longer text is cut off, so the action comes first.
    status = absl::DataLossError(
        absl::StrCat("the key is there, but damaged on the server's disk; restore a backup ",
                     "(kvctl check says more): ", location.status().message()));
  }
  replies_.Answer(pending, status, reply);
  return true;
}

}  // namespace remora
