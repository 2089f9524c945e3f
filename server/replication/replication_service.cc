#include "server/replication/replication_service.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/replication/gauge.h"
#include "store/base/absl_view.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/slot_transfer.h"

namespace remora {
namespace {

bool HasStore(const std::string& data_dir) {
  const std::string marker = absl::StrCat(data_dir, "/", AbslView(kStoreDir.marker));
  return ::access(marker.c_str(), F_OK) == 0;
}

}  // namespace

absl::StatusOr<History> CheckHistory(const std::string& data_dir, const ReplicationOptions& options) {
  REMORA_ASSIGN_OR_RETURN(const std::optional<History> kept, ReadHistory(data_dir));
  const bool follows = options.follows || options.membership != nullptr;
  if (!kept && follows && HasStore(data_dir)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--follow: the store in ", data_dir,
        " never followed a primary: begin with an empty directory, or with a copy of a follower's"));
  }
  if (!kept) return History{.is_primary = !follows, .began_empty = false, .reigns = {}};
  if (options.membership != nullptr) return *kept;
  if (kept->is_primary && options.follows) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--follow: the store in ", data_dir, " is a primary's, of epoch ", kept->epoch(),
        ": start it without --follow; or, to make a copy of it follow, write 'role follower' in its file ",
        AbslView(kHistoryFile)));
  }
  if (!kept->is_primary && !options.follows) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store in ", data_dir,
        " is a follower's: start it with --follow, and then promote it with `kvctl promote` if its "
        "primary is gone"));
  }
  return *kept;
}

ReplicationService::ReplicationService(Parts parts, ReplicationOptions options, std::string data_dir,
                                       bool is_synced, History history)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      data_dir_(std::move(data_dir)),
      is_synced_(is_synced),
      history_(std::move(history)),
      is_starting_(!options_.follows && options_.membership == nullptr) {}

absl::StatusOr<std::unique_ptr<ReplicationService>> ReplicationService::Create(
    Parts parts, ReplicationOptions options, std::string data_dir, bool is_synced, History history) {
  const bool follows = options.follows || options.membership != nullptr;
  history.is_primary = !follows;
  std::unique_ptr<ReplicationService> service(new ReplicationService(
      std::move(parts), std::move(options), std::move(data_dir), is_synced, std::move(history)));
  if (follows) {
    REMORA_ASSIGN_OR_RETURN(
        service->follower_,
        FollowerService::Create(service->parts_.store, service->parts_.replies, service->parts_.log,
                                {.data_dir = service->data_dir_,
                                 .is_synced = is_synced,
                                 .lease_time = service->options_.lease_time},
                                service->history_, service->parts_.wake));
    // From now on, nobody opens it to write without a promotion (R14).
    REMORA_RETURN_IF_ERROR(WriteHistory(service->data_dir_, service->history_));
  }
  if (service->options_.membership != nullptr) {
    service->follower_->SetMember(0, std::numeric_limits<std::uint64_t>::max(), false);
    service->options_.membership->set_wake(service->parts_.wake);
  }
  service->SetRole(follows ? Role::kFollower : Role::kOpening);
  SetGauge(service->parts_.store, Metric::kReplicationEpoch, service->history_.epoch());
  service->parts_.log.Write(LogEvent::kReplicationStarted,
                            absl::StrCat(follows ? "follows; clients are rejected until a promotion"
                                                 : "waits for its followers before it serves clients",
                                         "; epoch ", service->history_.epoch(), ", last group ",
                                         service->parts_.store.last_group()));
  return service;
}

void ReplicationService::EndLinks() {
  lease_.reset();
  if (options_.membership != nullptr) options_.membership->set_wake(nullptr);
  if (sender_ != nullptr) sender_->End();
  follower_.reset();
}

void ReplicationService::SetRole(Role role) {
  role_ = role;
  SetGauge(parts_.store, Metric::kReplicationRole, static_cast<std::uint64_t>(role));
}

std::string_view ReplicationService::WhyNotServing() const {
  if (options_.membership != nullptr && role_ != Role::kPrimary) {
    return "it is not the primary of its shard, or not yet: use another member, or wait";
  }
  switch (role_) {
    case Role::kFollower:
      return "it follows a primary: use that one, or make this one a primary with `kvctl promote`";
    case Role::kOpening:
      return "it waits for its followers (--replicate_to); its log says for which";
    case Role::kPrimary:
      break;
  }
  return {};
}

absl::Status ReplicationService::CheckWrite() const {
  if (role_ != Role::kPrimary) {
    return absl::FailedPreconditionError(
        absl::StrCat("write: this server takes no writes: ", AbslView(WhyNotServing())));
  }
  if (sender_ != nullptr && sender_->is_rejected()) {
    return absl::FailedPreconditionError(
        "write: a follower rejects this primary, which may have been replaced; use the promoted one, or see "
        "the "
        "server's log");
  }
  if (sender_ == nullptr || sender_->pending_bytes() < options_.max_pending_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("write: ", sender_->pending_bytes(),
                   " bytes of earlier writes wait for followers, more than --replication_buffer; see the "
                   "server's log, and try again"));
}

// --- Promotion ------------------------------------------------------------------------------------------

void ReplicationService::Take(const PendingRequest& pending) {
  const bool asks =
      pending.request.operation == Operation::kFollow && pending.request.condition == kFollowAsks;
  if (asks && options_.membership != nullptr) return AnswerAsked(pending);
  if (pending.request.operation == Operation::kFollow && pending.request.condition == kFollowYields) {
    return BeginYield(pending);
  }
  if (pending.request.operation == Operation::kFollow && pending.request.condition == kFollowForces) {
    return TakeWish(pending, MemberWish::kForces);
  }
  if (pending.request.operation == Operation::kPromote) return BeginPromotion(pending);
  // From the beginning of its promotion on, it answers no round of its primary (Q4 of
  // store/format/memory/lease_line.h).
  if (promotion_) {
    return parts_.replies.Answer(
        pending, absl::FailedPreconditionError("follow: this server is being promoted; stop its primary"));
  }
  if (role_ == Role::kFollower && follower_ != nullptr) return follower_->Take(pending);
  parts_.replies.Answer(
      pending, absl::FailedPreconditionError(absl::StrCat(
                   "follow: this server is a primary itself, of epoch ", history_.epoch(),
                   "; if it was promoted in place of yours, stop yours; else start this one with --follow")));
}

absl::Status ReplicationService::CheckPromotion() const {
  if (role_ != Role::kFollower) {
    return absl::FailedPreconditionError(
        absl::StrCat("promote: this server is a primary already, of epoch ", history_.epoch()));
  }
  if (promotion_) {
    return absl::FailedPreconditionError(
        "promote: another request has begun the promotion; wait for --lease_time");
  }
  if (parts_.store.loading()) {
    return absl::FailedPreconditionError(
        "promote: the store is loading its keys; try again when it is loaded");
  }
  return absl::OkStatus();
}

void ReplicationService::BeginPromotion(const PendingRequest& pending) {
  if (options_.membership != nullptr) return TakeWish(pending, MemberWish::kTakesOver);
  if (const absl::Status may = CheckPromotion(); !may.ok()) return parts_.replies.Answer(pending, may);
  history_ = follower_->End();
  // Clients may read its primary under leases until the lease time after its last answer (Q5).
  promotion_ = {.asked = pending, .due = follower_->support_ends_at()};
}

void ReplicationService::TakeWish(const PendingRequest& pending, MemberWish wish) {
  std::string_view fault;
  if (options_.membership == nullptr) fault = "promote: this server is no member of a shard in etcd";
  if (fault.empty() && role_ != Role::kFollower) fault = "promote: this member is the primary already";
  if (fault.empty() && handover_.wish() != MemberWish::kNone)
    fault = "promote: another request has asked for that; wait";
  if (fault.empty()) return handover_.Ask(pending, wish);  // its keeper sees it in the report
  parts_.replies.Answer(pending, absl::FailedPreconditionError(AbslView(fault)));
}

void ReplicationService::EndPromotion() {
  const PendingRequest asked = promotion_->asked;
  promotion_.reset();
  const absl::Status promoted = Promote({.followers = options_.followers});
  if (!promoted.ok()) return parts_.replies.Answer(asked, promoted);
  AnswerPromoted(asked);
}

void ReplicationService::AnswerPromoted(const PendingRequest& asked) {
  Reply reply;
  reply.request_id = asked.request.request_id;
  reply.result = static_cast<std::int64_t>(history_.epoch());
  reply.version = parts_.store.last_group();
  parts_.replies.Send(asked.session, reply, WhyNotServing());
}

absl::Status ReplicationService::Promote(const MemberOrders::Lead& lead) {
  const History before = history_;
  history_.is_primary = true;
  history_.began_empty =
      history_.reigns.empty() ? parts_.store.Read(Metric::kKeys) == 0 : history_.began_empty;
  history_.Begin(RandomId(), parts_.store.last_group());
  if (lead.epoch != 0) history_.reigns.back().epoch = lead.epoch;
  if (!IsInOrder(history_.reigns)) {
    history_ = before;
    return absl::FailedPreconditionError(
        "promote: the data are of a later epoch than etcd's; begin with an empty --data_dir");
  }
  // The reign is on the disk before the store writes the first group of it (R13).
  absl::Status led = WriteHistory(data_dir_, history_);
  if (led.ok()) led = Lead(lead.followers, lead.versions_from);
  if (!led.ok()) {
    history_ = before;
    led = absl::Status(led.code(), absl::StrCat("promote: ", led.message()));
    if (const absl::Status kept = WriteHistory(data_dir_, before); !kept.ok()) {
      parts_.log.Write(LogEvent::kReplicationFailed, StdView(kept.message()));
    }
    return led;
  }
  parts_.log.Write(LogEvent::kPromoted, absl::StrCat("promoted: a primary from epoch ", history_.epoch(),
                                                     " on, behind group ", history_.reigns.back().after));
  return absl::OkStatus();
}

absl::Status ReplicationService::Lead(const std::vector<FollowerAddress>& followers,
                                      std::uint64_t versions_from) {
  ServerStore& store = parts_.store;
  if (!followers.empty() || options_.membership != nullptr) {
    sender_ = std::make_unique<ReplicationSender>(store, parts_.log, parts_.followers, parts_.wake);
  }
  const absl::Status promoted = store.Promote(sender_ == nullptr ? nullptr : &sender_->sink(), versions_from);
  if (!promoted.ok()) {
    sender_.reset();
    return promoted;
  }
  parts_.on_promoted();
  SetGauge(store, Metric::kReplicationEpoch, history_.epoch());
  if (sender_ == nullptr) {
    SetRole(Role::kPrimary);
    return absl::OkStatus();
  }
  SetGauge(store, Metric::kReplicationBuffer, options_.max_pending_bytes);
  SetRole(Role::kOpening);
  opens_at_ = store.last_group();
  LinkThread::Copies copies;
  if (options_.membership != nullptr) {
    copies = {.begin = [&store] { return store.BeginCopy(); },
              .on_sent =
                  [&store](std::uint64_t bytes) {
                    store.Add(Metric::kCopyBytesSent, static_cast<std::int64_t>(bytes));
                  },
              .rate = options_.copy_rate};
  }
  const absl::Status started =
      sender_->Start(followers, history_, is_synced_, options_.lease_time, std::move(copies));
  // It is a primary all the same, and takes no client.
  if (!started.ok()) parts_.log.Write(LogEvent::kReplicationFailed, StdView(started.message()));
  return absl::OkStatus();
}

// --- A member of a cluster ------------------------------------------------------------------------------

void ReplicationService::StepMember() {
  const MemberOrders orders = options_.membership->Take();
  ServerStore& store = parts_.store;
  topology_ = orders.topology;
  follower_->SetMember(orders.life, orders.min_epoch, orders.may_copy);
  if (orders.lead && role_ == Role::kFollower && failure_.empty()) LeadMember(*orders.lead);
  if (!orders.wish_fault.empty() && handover_.wish() != MemberWish::kNone) {
    parts_.replies.Answer(handover_.TakeAsked(), absl::FailedPreconditionError(orders.wish_fault));
  }
  if (sender_ != nullptr && orders.lead) {
    const absl::Status set = sender_->SetFollowers(orders.lead->followers);
    if (!set.ok()) failure_ = std::string(set.message());
  }
  if (sender_ != nullptr && orders.lead && failure_.empty()) {
    // The groups that it had when it opened are published even below the minimum: all in sync have them.
    constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
    sender_->SetCounts({.links = orders.counts,
                        .last_group = orders.has_minimum ? kAll : std::max(sender_->published(), opens_at_),
                        .last_round = orders.confirmed.value_or(kAll)});
    SetGauge(store, Metric::kClusterMembers, orders.members);
    SetGauge(store, Metric::kClusterInSync, orders.in_sync);
    SetGauge(store, Metric::kClusterMinInSync, orders.min_in_sync);
  }
  MemberReport report{
      .is_loading = store.loading(),
      .is_empty = store.last_group() == 0 && !store.loading() && store.Read(Metric::kKeys) == 0,
      .wish = handover_.wish(),
      .is_yielding = handover_.is_yielding(),
      .has_copy = follower_->has_copy(),
      .is_primary = role_ != Role::kFollower,
      .is_open = role_ == Role::kPrimary,
      .epoch = history_.epoch(),
      .last = store.last_group(),
      .published = sender_ == nullptr ? 0 : sender_->published(),
      .begun = lease_ == nullptr ? 0 : lease_->begun(),
      .opens_at = opens_after_,
      .asked = asked_,
      .failure = failure_,
      .disk_failure = std::string(store.CheckSync().message())};
  if (sender_ != nullptr) report.followers = sender_->followers();
  options_.membership->Report(std::move(report));
}

void ReplicationService::LeadMember(const MemberOrders::Lead& lead) {
  absl::Status led = CheckPromotion();
  if (led.ok()) {
    history_ = follower_->End();
    if (lead.was_unasked) follower_->DelaySupportEnd();  // K10
    if (lead.slots != nullptr) led = parts_.store.NewSlotTransfer()->Limit(*lead.slots);
    if (led.ok()) led = Promote(lead);
    opens_after_ = follower_->support_ends_at();  // Q5
  }
  if (!led.ok()) failure_ = std::string(led.message());
}

void ReplicationService::AnswerAsked(const PendingRequest& pending) {
  if (pending.request.payload_checksum != 0) asked_ = pending.request.payload_checksum;
  Reply reply;
  reply.result = static_cast<std::int64_t>(parts_.store.last_group());
  reply.version = history_.epoch();
  reply.slot = role_ == Role::kFollower ? 0 : 1;
  parts_.replies.Answer(pending, absl::OkStatus(), reply);
}

void ReplicationService::BeginYield(const PendingRequest& pending) {
  if (options_.membership == nullptr || role_ != Role::kPrimary || lease_ == nullptr ||
      handover_.is_yielding()) {
    return parts_.replies.Answer(
        pending,
        absl::FailedPreconditionError(
            "switch: this server is not the primary of a cluster, or yields to a member already; see "
            "`kvctl cluster members`"));
  }
  handover_.BeginYield(pending, parts_.store.clock().Now(), options_.lease_time);
  lease_->SetHeld(true);
  parts_.log.Write(LogEvent::kYields, absl::StrCat("a member at ", pending.session->connection().peer(),
                                                   " is to take over: no lease begins any more"));
}

bool ReplicationService::StepYield() {
  if (!handover_.is_yielding()) {
    if (lease_ != nullptr) lease_->SetHeld(false);  // the member that asked may be gone
    return false;
  }
  const bool is_drained = sender_->acknowledged() >= parts_.store.last_group();
  switch (handover_.Step(parts_.store.clock().Now(), is_drained)) {
    case Handover::Next::kNothing:
      return false;
    case Handover::Next::kAnswers:
      parts_.replies.Answer(handover_.TakeYield(), absl::OkStatus());
      return true;
    case Handover::Next::kRejects:
      parts_.replies.Answer(
          handover_.TakeYield(),
          absl::FailedPreconditionError("switch: a member in sync lacks the last groups, so the "
                                        "primary goes on; see its log, and try again"));
      break;
    case Handover::Next::kGoesOn:
      break;
  }
  handover_.EndYield();
  lease_->SetHeld(false);
  parts_.log.Write(LogEvent::kYields, "no member has taken over: this primary goes on");
  return true;
}

// --- A primary ------------------------------------------------------------------------------------------

void ReplicationService::ContinueHistory() {
  const std::uint64_t last = parts_.store.last_group();
  // Without a number, the store has written outside of its history, or has none.
  if (!history_.reigns.empty() && last != 0) return;
  if (last == 0) {
    const std::uint64_t epoch = history_.epoch();
    history_.reigns.clear();
    history_.began_empty = parts_.store.Read(Metric::kKeys) == 0;
    history_.reigns.push_back({.epoch = epoch + 1, .id = RandomId(), .after = 0});
    return;
  }
  history_.Begin(RandomId(), last);
}

bool ReplicationService::Step() {
  bool busy = false;
  if (options_.membership != nullptr && options_.membership->is_asked()) StepMember();
  if (is_starting_ && !parts_.store.loading()) {
    is_starting_ = false;
    ContinueHistory();
    absl::Status led = WriteHistory(data_dir_, history_);  // as in Promote
    if (led.ok()) led = Lead(options_.followers, 0);
    if (!led.ok()) {
      parts_.log.Write(LogEvent::kReplicationFailed,
                       absl::StrCat("the server cannot be a primary, and serves no clients: ", led.message(),
                                    "; start it again"));
    }
    busy = true;
  }
  busy |= StepYield();
  if (promotion_ && parts_.store.clock().Now() >= promotion_->due) {
    EndPromotion();
    busy = true;
  }
  if (role_ == Role::kFollower && follower_ != nullptr) busy |= follower_->Step();
  if (sender_ != nullptr) {
    busy |= sender_->Step();
    if (role_ == Role::kOpening) ServeIfReady();
    if (lease_ != nullptr) busy |= lease_->Step();
  }
  return busy;
}

void ReplicationService::ServeIfReady() {
  if (opens_after_ && parts_.store.clock().Now() < *opens_after_) return;  // Q5
  opens_after_.reset();
  if (sender_->acknowledged() < opens_at_) return;
  lease_ = std::make_unique<LeaseService>(history_.epoch(), options_.lease_time, parts_.store, parts_.replies,
                                          *sender_, parts_.region);
  SetRole(Role::kPrimary);
  parts_.log.Write(LogEvent::kReplicationServing,
                   absl::StrCat("serves clients: all followers have its groups up to ", opens_at_, "; epoch ",
                                history_.epoch()));
  if (handover_.wish() != MemberWish::kNone) AnswerPromoted(handover_.TakeAsked());
}

bool ReplicationService::has_work() const {
  return (is_starting_ && !parts_.store.loading()) || (follower_ != nullptr && follower_->has_work());
}

std::optional<TimePoint> ReplicationService::next_work() const {
  if (promotion_) return promotion_->due;
  if (opens_after_) return opens_after_;
  if (handover_.is_yielding()) return handover_.next_work();
  return lease_ != nullptr ? lease_->next_work() : std::nullopt;
}

void ReplicationService::Forget(ClientSession& session) {
  if (follower_ != nullptr) follower_->Forget(session);
  if (promotion_) promotion_->asked.Forget(session);
  handover_.Forget(session);
  if (lease_ != nullptr) lease_->Forget(session);
}

}  // namespace remora
