#include "server/replication/follower_service.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/replication/gauge.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/wire/replication_messages.h"

namespace remora {
namespace {

absl::Status ProtocolError() {
  return absl::InvalidArgumentError("follow: the request is malformed; use one release on both servers");
}

/// The introduction of a primary.
struct PrimaryStart {
  FollowStart start{};
  History history{};
};

/// Returns nullopt if the bytes are malformed.
std::optional<PrimaryStart> DecodeStart(std::span<const std::byte> bytes) {
  PrimaryStart primary;
  FollowStart& start = primary.start;
  if (!FromBytes(bytes, &start) || start.count == 0 || start.count > kMaxReigns ||
      bytes.size() != sizeof(start) + start.count * sizeof(Reign)) {
    return std::nullopt;
  }
  History& history = primary.history;
  history.began_empty = start.began_empty == 1;
  history.reigns.resize(start.count);
  std::memcpy(history.reigns.data(), bytes.data() + sizeof(start), start.count * sizeof(Reign));
  if (!IsInOrder(history.reigns)) return std::nullopt;
  return primary;
}

/// Returns a copy of the payload, since the primary may still be writing to its staging buffer.
std::vector<std::byte> PayloadOf(const PendingRequest& pending) {
  const std::span<const std::byte> shared = pending.session->DecodePart(pending.request);
  return {shared.begin(), shared.end()};
}

}  // namespace

FollowerService::FollowerService(ServerStore& store, ReplySender& replies, const OperatorLog& log,
                                 FollowerOptions options, History history)
    : store_(store),
      replies_(replies),
      log_(log),
      data_dir_(std::move(options.data_dir)),
      is_synced_(options.is_synced),
      history_(std::move(history)),
      support_(options.lease_time, store.clock().Now()),
      receiver_(
          [&store](std::uint64_t number, std::string_view bytes) { return store.ApplyGroup(number, bytes); }),
      copies_(data_dir_) {}

absl::StatusOr<std::unique_ptr<FollowerService>> FollowerService::Create(
    ServerStore& store, ReplySender& replies, const OperatorLog& log, FollowerOptions options,
    History history, std::function<void()> wake) {
  std::unique_ptr<FollowerService> service(
      new FollowerService(store, replies, log, std::move(options), std::move(history)));
  REMORA_ASSIGN_OR_RETURN(service->syncer_,
                          GroupSyncer::Start([&store] { return store.SyncGroups(); }, std::move(wake)));
  return service;
}

void FollowerService::Take(const PendingRequest& pending) {
  if (pending.request.operation == Operation::kFollow) return TakeFollow(pending);
  if (pending.request.operation == Operation::kCopy) return TakeCopy(pending);
  const bool is_part = pending.request.operation == Operation::kReplicate;
  const absl::Status taken = is_part ? TakePart(pending) : TakeSupport(pending);
  if (!taken.ok()) replies_.Answer(pending, taken);
}

void FollowerService::SetMember(std::uint64_t life, std::uint64_t min_epoch, bool may_copy) {
  life_ = life;
  min_epoch_ = min_epoch;
  may_copy_ = may_copy;
  if (history_.epoch() < min_epoch) receiver_.End();
  if (!may_copy || copies_.epoch() < min_epoch) copies_.Stop();
}

// --- A primary comes ------------------------------------------------------------------------------------

void FollowerService::TakeFollow(const PendingRequest& pending) {
  const std::vector<std::byte> bytes = PayloadOf(pending);
  if (pending.request.condition == kFollowFails) {
    LogRejected(pending,
                {reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 512)});
    return replies_.Answer(pending, absl::OkStatus());
  }
  const std::optional<PrimaryStart> primary = DecodeStart(bytes);
  if (!primary) return replies_.Answer(pending, ProtocolError());
  const absl::Status follows = Follow(pending, primary->start, primary->history);
  if (follows.ok()) return;
  Reply reply;
  // Only where a copy would help: an earlier primary, or a lease time, it rejects for good.
  const bool helps = !CheckPrimary(history_, position(), primary->history, primary->start.last).ok();
  reply.result = helps && CheckCopyOf(primary->history).ok() ? kTakesCopy : 0;
  if (reply.result != kTakesCopy) LogRejected(pending, StdView(follows.message()));
  replies_.Answer(pending, follows, reply);
}

FollowerPosition FollowerService::position() const {
  return {.last = store_.last_group(), .is_empty = store_.Read(Metric::kKeys) == 0 && !store_.loading()};
}

absl::Status FollowerService::CheckEpoch(const History& primary) const {
  if (primary.epoch() < min_epoch_) {
    return absl::FailedPreconditionError(
        absl::StrCat("follow: the primary is of epoch ", primary.epoch(),
                     ", and this member follows none before the one in etcd; stop that primary"));
  }
  return absl::OkStatus();
}

absl::Status FollowerService::Follow(const PendingRequest& pending, const FollowStart& start,
                                     History primary) {
  if (copies_.is_whole()) {
    return absl::FailedPreconditionError(
        "follow: this member has a copy of a primary's data, and starts again with it");
  }
  REMORA_RETURN_IF_ERROR(CheckEpoch(primary));
  const std::uint64_t last = store_.last_group();
  REMORA_RETURN_IF_ERROR(CheckPrimary(history_, position(), primary, start.last));
  // A promotion waits for the follower's lease time, which must not end before a lease of a client of the
  // primary (Q5 of store/format/memory/lease_line.h).
  if (start.lease_ms == 0 || start.lease_ms > support_.lease_time().count()) {
    return absl::FailedPreconditionError(absl::StrCat("follow: the primary's lease time is ", start.lease_ms,
                                                      " ms, this follower's ", support_.lease_time().count(),
                                                      " ms; give both the same --lease_time"));
  }
  // It keeps the primary's epoch before it acknowledges anything (R1 of history.h). It waits for the disk,
  // and has no client that would wait with it.
  if (primary != history_) {
    REMORA_RETURN_IF_ERROR(WriteHistory(data_dir_, primary));
    history_ = std::move(primary);
    SetGauge(store_, Metric::kReplicationEpoch, history_.epoch());
  }
  RejectWaiting(absl::FailedPreconditionError(
      "replicate: another connection of a primary has taken over; connect again if this is the primary"));
  copies_.Stop();  // the primary may not have the next group any more, and send a copy after all
  support_.NoteAnswer(store_.clock().Now());
  receiver_.Begin(pending.session, last, is_synced_ || start.is_synced == 1);
  if (receiver_.syncs()) syncer_->Begin();
  waiting_.push_back({pending, last});
  last_line_.clear();
  log_.Write(LogEvent::kFollowing,
             absl::StrCat("follows the primary at ", pending.session->connection().peer(), " in epoch ",
                          history_.epoch(), ", from group ", last + 1, " on"));
  AnswerDue();
  return absl::OkStatus();
}

// --- A copy comes -----------------------------------------------------------------------------------------

absl::Status FollowerService::CheckCopyOf(const History& primary) const {
  if (!may_copy_ || copies_.is_whole()) {
    return absl::FailedPreconditionError(
        "copy: this member keeps its data: it has a copy already, or the configuration in etcd may rely on "
        "them");
  }
  if (const absl::Status is_late = CheckEpoch(primary); !is_late.ok()) return is_late;
  return CheckCopy(history_, position(), primary);
}

absl::Status FollowerService::BeginCopy(const PendingRequest& pending) {
  const std::optional<PrimaryStart> primary = DecodeStart(PayloadOf(pending));
  if (!primary) return ProtocolError();
  REMORA_RETURN_IF_ERROR(CheckCopyOf(primary->history));
  RejectWaiting(
      absl::FailedPreconditionError("replicate: a primary sends a copy of its data; connect again"));
  receiver_.End();  // R15: it acknowledges nothing
  copies_.Begin(pending.session, primary->history);
  return absl::OkStatus();
}

void FollowerService::TakeCopy(const PendingRequest& pending) {
  const bool begins = static_cast<CopyStep>(pending.request.condition) == CopyStep::kBegins;
  absl::StatusOr<std::int64_t> taken = 0;
  if (begins) {
    if (absl::Status begun = BeginCopy(pending); !begun.ok()) taken = std::move(begun);
  } else if (!copies_.IsFrom(pending.session) || copies_.is_whole()) {
    return replies_.Answer(
        pending,
        absl::FailedPreconditionError("copy: this member takes no copy from this connection; connect again"));
  } else {
    taken = TakeCopyStep(pending);
  }
  LogCopy(pending, taken);
  Reply reply;
  reply.result = taken.value_or(0);
  replies_.Answer(pending, taken.status(), reply);
}

absl::StatusOr<std::int64_t> FollowerService::TakeCopyStep(const PendingRequest& pending) {
  const std::uint64_t before = copies_.bytes();
  absl::StatusOr<std::int64_t> taken = copies_.Take(pending.request, PayloadOf(pending));
  if (copies_.bytes() > before) {
    store_.Add(Metric::kCopyBytesTaken, static_cast<std::int64_t>(copies_.bytes() - before));
  }
  return taken;
}

void FollowerService::LogCopy(const PendingRequest& pending, const absl::StatusOr<std::int64_t>& taken) {
  const auto step = static_cast<CopyStep>(pending.request.condition);
  const std::string from = absl::StrCat("the primary at ", pending.session->connection().peer());
  if (!taken.ok()) {
    const std::string why =
        absl::StrCat(from, ": ", taken.status().message(), "; the data here stay, and it is tried again");
    if (std::exchange(last_line_, why) != why) log_.Write(LogEvent::kCopyFailed, why);
  } else if (step == CopyStep::kFiles) {
    last_line_.clear();
    const std::string earlier =
        *taken == 0 ? std::string() : absl::StrCat("; ", *taken, " tables of an earlier copy are here");
    log_.Write(LogEvent::kCopyTaken, absl::StrCat(from, " sends a copy of its data, ", pending.request.ttl_ms,
                                                  " bytes: this member, at group ", store_.last_group(),
                                                  ", cannot go on from there", earlier));
  } else if (step == CopyStep::kEnds) {
    log_.Write(LogEvent::kCopyTaken, absl::StrCat(from, " has sent the copy, ", copies_.bytes(), " bytes"));
  }
}

// --- Groups come ----------------------------------------------------------------------------------------

absl::Status FollowerService::TakePart(const PendingRequest& pending) {
  if (!receiver_.IsFrom(pending.session)) {
    return absl::FailedPreconditionError(
        "replicate: this follower takes no groups from this connection; connect again");
  }
  copies_.Drop();  // it goes on from its data
  const Request& request = pending.request;
  const GroupReceiver::Part part{.number = request.condition,
                                 .group_size = static_cast<std::uint64_t>(request.ttl_ms),
                                 .offset = request.payload_checksum,
                                 .bytes = pending.session->DecodePart(request)};
  const bool is_last = part.is_last();
  REMORA_RETURN_IF_ERROR(receiver_.Take(part));
  if (is_last || receiver_.is_full()) {
    waiting_.push_back({pending, is_last ? request.condition : 0});
  } else {
    Acknowledge(pending);
  }
  return absl::OkStatus();
}

absl::Status FollowerService::TakeSupport(const PendingRequest& pending) {
  if (!receiver_.IsFrom(pending.session)) {
    return absl::FailedPreconditionError(
        "support: this follower takes no groups from this connection; connect again");
  }
  copies_.Drop();
  support_.NoteAnswer(store_.clock().Now());
  Acknowledge(pending);
  return absl::OkStatus();
}

bool FollowerService::Step() {
  bool busy = receiver_.has_work() && Apply();
  if (receiver_.syncs() && receiver_.has_primary()) {
    const absl::StatusOr<std::uint64_t> synced = syncer_->synced();
    if (!synced.ok()) {
      Fail(synced.status());
      return true;
    }
    receiver_.NoteSynced(*synced);
  }
  return AnswerDue() || busy;
}

bool FollowerService::Apply() {
  const std::uint64_t before = receiver_.applied();
  const absl::StatusOr<bool> applied = receiver_.Apply();
  store_.Add(Metric::kGroupsApplied, static_cast<std::int64_t>(receiver_.applied() - before));
  if (!applied.ok()) {
    Fail(applied.status());
    return true;
  }
  if (*applied && receiver_.syncs()) syncer_->Begin();
  return *applied;
}

bool FollowerService::AnswerDue() {
  const auto is_due = [this](const Waiting& one) {
    return one.number == 0 ? !receiver_.is_full() : one.number <= receiver_.acknowledged();
  };
  bool busy = false;
  // One by one: a reply may end the session, which changes waiting_.
  for (;;) {
    const auto due = std::ranges::find_if(waiting_, is_due);
    if (due == waiting_.end()) return busy;
    busy = true;
    const PendingRequest pending = due->pending;
    waiting_.erase(due);
    Acknowledge(pending);
  }
}

void FollowerService::Acknowledge(const PendingRequest& pending) {
  Reply reply;
  reply.version = receiver_.acknowledged();
  reply.result = static_cast<std::int64_t>(receiver_.applied());
  reply.slot = life_;
  if (receiver_.IsFrom(pending.session)) replies_.Answer(pending, absl::OkStatus(), reply);
}

// --- The end --------------------------------------------------------------------------------------------

void FollowerService::Fail(const absl::Status& failure) {
  const std::string why = absl::StrCat("replicate: the follower cannot apply a group: ", failure.message());
  if (std::exchange(last_line_, why) != why) log_.Write(LogEvent::kReplicationFailed, why);
  receiver_.End();
  RejectWaiting(absl::FailedPreconditionError(why));
}

void FollowerService::RejectWaiting(const absl::Status& why) {
  while (!waiting_.empty()) {
    const PendingRequest pending = waiting_.front().pending;
    waiting_.pop_front();  // first: the reply may end the session, which changes waiting_
    replies_.Answer(pending, why);
  }
}

History FollowerService::End() {
  receiver_.End();
  copies_.Drop();
  waiting_.clear();
  return history_;
}

void FollowerService::LogRejected(const PendingRequest& pending, std::string_view why) {
  const std::string line =
      absl::StrCat("the primary at ", pending.session->connection().peer(), " is rejected: ", AbslView(why));
  if (std::exchange(last_line_, line) == line) return;
  log_.Write(LogEvent::kPrimaryRejected, line);
}

void FollowerService::Forget(ClientSession& session) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.pending.session == &session; });
  if (receiver_.IsFrom(&session)) receiver_.End();
  if (copies_.IsFrom(&session)) copies_.Stop();
}

}  // namespace remora
