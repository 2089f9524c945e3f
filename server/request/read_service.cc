// Answers to requests outside the step's group of writes: pings, locations of records, reservations
// for large values, scans, backups.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/request/request_decoder.h"
#include "server/server.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

constexpr char kOutOfBounds[] = "a key, value, ttl or condition out of bounds, or outside the slice";

// Between two tries to bring a record to memory: each reads it from the durable tier, and may do so in vain.
constexpr std::chrono::milliseconds kPause{5};

}  // namespace

bool Server::AnswerOthers() {
  if (other_requests_.empty()) return false;
  std::size_t put_off = 0;
  const std::size_t count = other_requests_.size();
  const TimePoint now = store_->clock().Now();
  std::size_t scans = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Pending pending = other_requests_[i];
    if (pending.not_before > now) {
      other_requests_[put_off++] = pending;
      continue;
    }
    if (pending.session == nullptr) continue;
    if (pending.request.operation == Operation::kReserve) {
      AddReserve(pending);
      continue;
    }
    if (pending.request.operation == Operation::kPart) {
      Answer(pending, grants_->TakePart(*pending.session, pending.request));
      continue;
    }
    if (pending.request.operation == Operation::kCommit) {
      // The reservation has been given back, if there was one.
      const bool gives_back = pending.request.key_size == 0 && pending.request.value_size == 0;
      if (gives_back) {
        Answer(pending, absl::OkStatus());
        continue;
      }
      Answer(pending, absl::InvalidArgumentError(
                          "a commit where nothing of these sizes is reserved, or not any more: it took too "
                          "long, or a new reserve replaced it"));
      continue;
    }
    if (pending.request.operation == Operation::kOutcome) {
      if (pending.client != nullptr && pending.client->unsynced > 0) {  // it will be known
        other_requests_[put_off++] = pending;
      } else {
        TellOutcome(pending);
      }
      continue;
    }
    if (pending.request.operation == Operation::kBackup) {
      TellBackup(pending);
      continue;
    }
    const bool is_scan =
        pending.request.operation == Operation::kScan || pending.request.operation == Operation::kScanNext;
    if (is_scan && ++scans > Scans::kMaxPerStep) {  // writers come first
      other_requests_[put_off++] = pending;
      continue;
    }
    Reply reply;
    absl::Status status = absl::InvalidArgumentError(kOutOfBounds);
    if (pending.request.operation == Operation::kPing) {
      store_->Add(Counter::kPings, 1);
      status = absl::OkStatus();
    } else if (pending.request.operation == Operation::kLocate) {
      status = Locate(*pending.session, pending.request, &reply);
    } else if (is_scan) {
      status = scans_->Take(*pending.session, pending.request, &reply);
    }
    if (IsPutOff(status)) {  // another step answers it
      other_requests_[put_off] = pending;
      other_requests_[put_off++].not_before = now + kPause;
      continue;
    }
    Answer(pending, status, reply);
  }
  other_requests_.resize(put_off);
  return put_off < count;
}

void Server::TellOutcome(const Pending& pending) {
  Reply reply;
  reply.status = ReplyStatus::kInvalid;  // of who has no name
  if (pending.client != nullptr) reply = pending.client->Recall(pending.request.payload_offset);
  reply.request_id = pending.request.request_id;
  std::string_view why;
  if (reply.status == ReplyStatus::kInvalid) {
    store_->Add(Counter::kRejectedRequests, 1);
    why = "no write that this client sent over an earlier connection";
  } else if (reply.status == ReplyStatus::kUnknown) {
    why = "the server does not remember what became of the write; later ones took its place";
  } else if (reply.status == ReplyStatus::kDurableTier) {
    why = "the durable tier failed; the write is not visible, whether a restart shows it is unknown";
  }
  const bool unknown = reply.status == ReplyStatus::kUnknown;
  if (why.empty() || unknown) store_->Add(unknown ? Counter::kOutcomesUnknown : Counter::kOutcomesTold, 1);
  SendReply(pending.session, reply, why);
}

void Server::TellBackup(const Pending& pending) {
  const absl::StatusOr<std::optional<BackupDone>> told = backups_->Take(pending.request);
  if (!told.ok() || !told->has_value()) return Answer(pending, told.status());
  Reply reply;
  reply.request_id = pending.request.request_id;
  SendReply(pending.session, reply,
            std::string_view(reinterpret_cast<const char*>(&**told), sizeof(BackupDone)));
}

void Server::Answer(const Pending& pending, const absl::Status& status, Reply reply) {
  reply.request_id = pending.request.request_id;
  reply.status = ToReplyStatus(status);
  if (reply.status == ReplyStatus::kInvalid) store_->Add(Counter::kRejectedRequests, 1);
  SendReply(pending.session, reply, StdView(status.message()));
}

// --- Room for large values is reserved ------------------------------------------------------------------

void Server::AddReserve(const Pending& pending) {
  // Before it waits: nobody is to wait for what it does not want any more.
  const absl::Status given_back = grants_->GiveBack(pending.session->connection());
  if (!given_back.ok()) return Answer(pending, given_back);
  const Turn asked{.pending = pending, .asked = store_->clock().Now()};
  const auto turn = std::find_if(reserves_.begin(), reserves_.end(),
                                 [&](const Turn& other) { return other.pending.session == pending.session; });
  if (turn == reserves_.end()) {
    reserves_.push_back(asked);
  } else if (!turn->is_asked) {
    *turn = asked;
  } else {
    Answer(pending, absl::InvalidArgumentError("a reserve while another one waits"));
  }
}

bool Server::AnswerReserves() {
  grants_->Expire();
  if (reserves_.empty()) return false;
  const TimePoint now = store_->clock().Now();
  const std::size_t before = reserves_.size();
  bool is_room = true;
  for (auto turn = reserves_.begin(); turn != reserves_.end();) {
    turn = TakeTurn(*turn, now, &is_room) ? reserves_.erase(turn) : std::next(turn);
  }
  return reserves_.size() < before;
}

bool Server::TakeTurn(Turn& turn, TimePoint now, bool* is_room) {
  constexpr std::chrono::seconds kTurn{kTurnSeconds};
  const Pending pending = turn.pending;
  if (pending.session == nullptr) return true;
  if (!turn.is_asked) return now >= turn.asked + 2 * kTurn;
  // In order, so that a large one does not wait for ever while small ones pass by.
  absl::StatusOr<Grant> grant = absl::AbortedError("another one waits before it");
  if (*is_room) grant = grants_->Reserve(*pending.session, pending.request, turn.asked);
  *is_room = !IsPutOff(grant.status());
  if (*is_room && !grant.ok()) {
    Answer(pending, grant.status());
    return true;
  }
  if (!*is_room && now < turn.asked + kTurn) return false;
  turn.is_asked = false;
  Reply reply;
  reply.request_id = pending.request.request_id;
  std::string_view behind =
      "other clients have reserved as much room for large values as they may; try again, or with a longer "
      "timeout";
  if (!grant.ok()) {
    reply.status = ReplyStatus::kAskAgain;
  } else {
    behind = {reinterpret_cast<const char*>(&*grant), grant->region.size > 0 ? sizeof(*grant) : 0};
  }
  SendReply(pending.session, reply, behind);
  return grant.ok();
}

absl::Status Server::Locate(const ServerSession& session, const Request& request, Reply* reply) {
  const std::string_view shared_key = session.PayloadOf(request).key;
  if (shared_key.data() == nullptr || request.value_size != 0) {
    return absl::InvalidArgumentError(kOutOfBounds);
  }
  std::array<char, kMaxKeySize> copy;
  std::memcpy(copy.data(), shared_key.data(), shared_key.size());
  const std::string_view key(copy.data(), shared_key.size());
  if (!VerifyPayload(&request, HashKey(key), HashValue(nullptr, 0))) {
    return absl::DataLossError("what was sent was damaged on its way: the key does not match its checksum");
  }
  const absl::StatusOr<Location> location = store_->Locate(key);
  if (absl::IsDataLoss(location.status())) {
    // A longer text is cut off, so the action comes first.
    return absl::DataLossError(
        absl::StrCat("the key is there, but damaged on the server's disk; restore a backup ",
                     "(kvctl check says more): ", location.status().message()));
  }
  if (!location.ok()) return location.status();
  reply->version = location->version;
  reply->slot = location->slot;
  return absl::OkStatus();
}

void Server::SendReply(ServerSession* session, Reply& reply, std::string_view behind) {
  if (session == nullptr) return;
  // Any moment between request and reply will do (client/session/server_clock.h).
  if (!reply_ms_) reply_ms_ = store_->clock().UnixMillis();
  reply.server_ms = *reply_ms_;
  reply.flags = LoadingFlag();
  if (store_->wants_reads()) reply.flags |= ReplyFlag::kWantsReads;
  ++expected_;
  const absl::Status sent = session->SendReply(reply, behind);
  if (!sent.ok()) Drop(&session->connection(), sent);
}

}  // namespace remora
