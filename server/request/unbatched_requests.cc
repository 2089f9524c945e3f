#include "server/request/unbatched_requests.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/request/request_decoder.h"
#include "store/base/absl_view.h"
#include "store/format/memory/record.h"
#include "store/format/types/scan_range.h"
#include "store/region/atomic_word.h"

namespace remora {
namespace {

constexpr char kOutOfBounds[] = "a key, value, ttl or condition out of bounds, or outside the staging buffer";

}  // namespace

UnbatchedRequests::UnbatchedRequests(ServerStore& store, LargeWrites& large_writes, ReserveQueue& reserves,
                                     ReplySender& replies, std::unique_ptr<BackupService> backups,
                                     ColdReads& cold_reads, SettingsSource settings, TopologySource topology)
    : store_(store),
      large_writes_(large_writes),
      reserves_(reserves),
      replies_(replies),
      scans_(store),
      locates_(store, replies, cold_reads),
      backups_(std::move(backups)),
      settings_(std::move(settings)),
      topology_(std::move(topology)) {}

bool UnbatchedRequests::AnswerAtOnce(const PendingRequest& pending) {
  switch (pending.request.operation) {
    case Operation::kReserve:
      reserves_.Add(pending);
      return true;
    case Operation::kPart:
      replies_.Answer(pending, large_writes_.TakePart(*pending.session, pending.request));
      return true;
    case Operation::kFinishLargePut:
      AnswerUnreservedCommit(pending);
      return true;
    case Operation::kBackup:
      AnswerBackup(pending);
      return true;
    case Operation::kSettings:
      AnswerSettings(pending);
      return true;
    case Operation::kTopology:
      AnswerTopology(pending);
      return true;
    default:
      return false;
  }
}

bool UnbatchedRequests::AnswerSome() {
  std::size_t postponed = 0;
  const std::size_t count = waiting_.size();
  const TimePoint now = store_.clock().Now();
  std::size_t scans = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const PendingRequest pending = waiting_[i];
    if (pending.not_before > now) {
      waiting_[postponed++] = pending;
      continue;
    }
    if (pending.session == nullptr) continue;
    if (AnswerAtOnce(pending)) continue;
    if (pending.request.operation == Operation::kQueryCompletion) {
      if (pending.client != nullptr && pending.client->unsynced > 0) {  // it will be known
        waiting_[postponed++] = pending;
      } else {
        AnswerCompletionQuery(pending);
      }
      continue;
    }
    const bool is_scan =
        pending.request.operation == Operation::kScan || pending.request.operation == Operation::kScanNext;
    if (is_scan && ++scans > ScanService::kMaxPerStep) {  // writers come first
      waiting_[postponed++] = pending;
      continue;
    }
    Reply reply;
    absl::Status status = absl::InvalidArgumentError(kOutOfBounds);
    if (pending.request.operation == Operation::kPing) {
      store_.Add(Metric::kPings, 1);
      status = absl::OkStatus();
    } else if (pending.request.operation == Operation::kLocate) {
      if (locates_.Take(pending)) continue;
      status = absl::AbortedError("locate: no space");
    } else if (pending.request.operation == Operation::kLeaf) {
      status = TakeLeaf(pending, &reply);
    } else if (is_scan) {
      status = scans_.Take(*pending.session, pending.request, &reply);
    }
    if (IsPostponed(status)) {  // another step answers it
      waiting_[postponed] = pending;
      waiting_[postponed++].not_before = now + kSpacePause;
      continue;
    }
    replies_.Answer(pending, status, reply);
  }
  waiting_.resize(postponed);
  return postponed < count;
}

bool UnbatchedRequests::AnswerSomeRead() {
  const std::size_t before = waiting_.size();
  if (!locates_.AnswerRead(&waiting_)) return false;
  const TimePoint next_try = store_.clock().Now() + kSpacePause;
  for (std::size_t i = before; i < waiting_.size(); ++i) waiting_[i].not_before = next_try;
  return true;
}

void UnbatchedRequests::AnswerUnreservedCommit(const PendingRequest& pending) {
  // The reservation has been given back, if there was one.
  const bool gives_back = pending.request.key_size == 0 && pending.request.value_size == 0;
  if (gives_back) {
    replies_.Answer(pending, absl::OkStatus());
    return;
  }
  replies_.Answer(pending, absl::InvalidArgumentError(
                               "large value: nothing of these sizes is reserved, or not any more: it took "
                               "too long, or a new reserve replaced it"));
}

void UnbatchedRequests::AnswerCompletionQuery(const PendingRequest& pending) {
  Reply reply;
  reply.status = ReplyStatus::kInvalid;  // of a client without a client ID
  if (pending.client != nullptr) reply = pending.client->Find(pending.request.payload_offset);
  reply.request_id = pending.request.request_id;
  std::string_view why;
  if (reply.status == ReplyStatus::kInvalid) {
    store_.Add(Metric::kRejectedRequests, 1);
    why = "no write that this client sent over an earlier connection";
  } else if (reply.status == ReplyStatus::kUnknown) {
    why = "the server does not remember the outcome of the write; later ones took its place";
  } else if (reply.status == ReplyStatus::kDurableTier) {
    why = "the durable tier failed; the write is not visible, whether a restart shows it is unknown";
  }
  const bool unknown = reply.status == ReplyStatus::kUnknown;
  if (why.empty() || unknown) store_.Add(unknown ? Metric::kCompletionsUnknown : Metric::kCompletionsTold, 1);
  replies_.Send(pending.session, reply, why);
}

absl::Status UnbatchedRequests::TakeLeaf(const PendingRequest& pending, Reply* reply) {
  Request request = pending.request;
  // Copied, then verified, then looked at: the client may still be writing.
  const std::span<const std::byte> shared = pending.session->DecodePart(request);
  if (shared.empty() || shared.size() > 1 + kMaxBoundSize) return absl::InvalidArgumentError(kOutOfBounds);
  const std::string copy(reinterpret_cast<const char*>(shared.data()), shared.size());
  if (!VerifyPayload(&request, HashKey({}), HashValue(copy.data(), copy.size()))) {
    return absl::DataLossError(
        "scan: the request was damaged in flight: its key does not match its checksum; send it again");
  }
  const auto side = static_cast<LeafSide>(copy.front());
  if (side != LeafSide::kOf && side != LeafSide::kBelow) return absl::InvalidArgumentError(kOutOfBounds);
  const absl::StatusOr<std::uint64_t> place = store_.FindLeaf(std::string_view(copy).substr(1), side);
  if (place.ok()) reply->slot = *place;
  reply->version = LoadWord(store_.superblock().slots_word, std::memory_order_relaxed);  // S1 of leaf_scan.h
  return place.status();
}

void UnbatchedRequests::AnswerBackup(const PendingRequest& pending) {
  const absl::StatusOr<std::optional<BackupDone>> told = backups_->Take(pending.request);
  if (!told.ok() || !told->has_value()) return replies_.Answer(pending, told.status());
  Reply reply;
  reply.request_id = pending.request.request_id;
  replies_.Send(pending.session, reply,
                std::string_view(reinterpret_cast<const char*>(&**told), sizeof(BackupDone)));
}

void UnbatchedRequests::AnswerSettings(const PendingRequest& pending) {
  if (!settings_) {
    return replies_.Answer(
        pending, absl::FailedPreconditionError(
                     "settings: this server was started by another program than kvserver, and has no "
                     "settings to tell; ask that program"));
  }
  AnswerText(pending, settings_(), "settings");
}

void UnbatchedRequests::AnswerTopology(const PendingRequest& pending) {
  if (!topology_) {
    return replies_.Answer(pending, absl::FailedPreconditionError(
                                        "topology: etcd has no division of this server's cluster; name the "
                                        "file of the topology"));
  }
  const std::string_view text = topology_();
  if (text.empty()) {
    return replies_.Answer(
        pending, absl::UnavailableError("topology: the server has not read it in etcd yet; see its log"));
  }
  AnswerText(pending, text, "the topology");
}

void UnbatchedRequests::AnswerText(const PendingRequest& pending, std::string_view text,
                                   std::string_view what) {
  const Request& request = pending.request;
  if (request.condition > text.size() || request.key_size != 0 || request.value_size != 0) {
    return replies_.Answer(
        pending, absl::InvalidArgumentError(absl::StrCat("protocol error: a request for ", AbslView(what),
                                                         " with a payload, or beyond their end")));
  }
  Reply reply;
  reply.request_id = request.request_id;
  reply.version = HashSettings(text);
  reply.result = static_cast<std::int64_t>(text.size());
  replies_.Send(pending.session, reply, text.substr(request.condition, kMaxReplyBehind));
}

void UnbatchedRequests::Forget(ClientSession& session) {
  scans_.End(session.connection());
  locates_.Forget(session);
  for (PendingRequest& pending : waiting_) pending.Forget(session);
}

}  // namespace remora
