#include "server/cluster/keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "server/cluster/division.h"
#include "server/cluster/division_swap.h"
#include "server/cluster/kept_division.h"
#include "server/monitoring/log_events.h"
#include "store/base/absl_view.h"
#include "store/base/random_id.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/durable/incoming_copy.h"
#include "store/format/wire/replication_messages.h"

namespace remora {
namespace {

// The server thread answers within a step. One that does not is as good as gone, and is asked again.
constexpr std::chrono::seconds kServerTimeout{2};
// A member that lacks no more groups than this counts from then on, so that it comes into sync.
constexpr std::uint64_t kCloseGroups = 1000;
constexpr std::chrono::milliseconds kHurriedPause{10};

}  // namespace

std::string ShardKey(std::string_view shard) { return absl::StrCat("/remora/shards/", AbslView(shard)); }

Keeper::Keeper(KeeperOptions options, Membership& membership, const OperatorLog& log, const Clock& clock,
               OnEnd on_end)
    : options_(std::move(options)),
      membership_(membership),
      log_(log),
      clock_(clock),
      on_end_(std::move(on_end)) {}

absl::StatusOr<std::unique_ptr<Keeper>> Keeper::Start(KeeperOptions options, Membership& membership,
                                                      const OperatorLog& log, const Clock& clock,
                                                      OnEnd on_end) {
  std::unique_ptr<Keeper> keeper(new Keeper(std::move(options), membership, log, clock, std::move(on_end)));
  REMORA_ASSIGN_OR_RETURN(keeper->store_, ConfigStore::Create(keeper->options_.store));
  if (keeper->options_.division != nullptr) {
    keeper->division_ =
        std::make_unique<DivisionReader>(keeper->options_.division, keeper->options_.credentials.shard);
  }
  if (keeper->options_.kept != nullptr) {
    keeper->options_.kept->set_wake([one = keeper.get()] { one->Wake(); });
  }
  REMORA_ASSIGN_OR_RETURN(keeper->orders_.life,
                          MemberLife(keeper->options_.data_dir, keeper->options_.is_synced));
  REMORA_ASSIGN_OR_RETURN(keeper->thread_,
                          StartThread([&] { return std::thread([one = keeper.get()] { one->Run(); }); }));
  return keeper;
}

Keeper::~Keeper() {
  if (options_.kept != nullptr) options_.kept->set_wake(nullptr);
  {
    const MutexLock lock(mutex_);
    is_stopped_ = true;
  }
  stops_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Keeper::Run() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      const bool hurries = hurries_ || (options_.kept != nullptr && options_.kept->hurries());
      const Duration pause = hurries ? Duration(kHurriedPause) : options_.failover_after / 8;
      if (!is_stopped_ && !is_woken_) lock.WaitFor(stops_, pause);
      if (is_stopped_) return;
      is_woken_ = false;
    }
    if (!has_ended_) Tick();
  }
}

void Keeper::Wake() {
  {
    const MutexLock lock(mutex_);
    is_woken_ = true;
  }
  stops_.notify_one();
}

void Keeper::Say(LogEvent event, std::string line) {
  if (line == last_line_) return;
  log_.Write(event, line);
  last_line_ = std::move(line);
}

void Keeper::End(std::string why, KeeperEnd end) {
  if (!std::exchange(has_ended_, true)) on_end_(end, std::move(why));
}

std::optional<MemberReport> Keeper::Order() { return membership_.Ask(orders_, kServerTimeout); }

void Keeper::Tick() {
  if (!Settle() || !Read(clock_.Now() >= next_read_)) return;
  if (!IsMember()) return;
  if (!is_alone_here_ && IsAnotherHere()) return;
  is_alone_here_ = true;
  if (!orders_.lead) orders_.min_epoch = std::max<std::uint64_t>(now_->epoch, 1);
  orders_.may_copy = !orders_.lead && now_->epoch > 0 && !now_->MayTakeOver(self());
  if (orders_.lead && !now_->complete.empty()) Confirm();
  StepSwap();
  const bool may_lead = ReadDivision();
  if (has_ended_) return;
  const std::optional<MemberReport> report = Order();
  if (!report) return;
  if (!report->failure.empty()) return End(absl::StrCat("it cannot lead: ", report->failure));
  begun_ = report->begun;
  hurries_ = report->is_yielding;
  if (hurries_) next_read_ = clock_.Now();
  if (orders_.lead) return Lead(*report);
  if (report->has_copy) return TakeCopy();
  if (may_lead) Follow(*report);
}

bool Keeper::IsMember() {
  if (!now_->AddressOf(options_.member).empty()) {
    was_member_ = true;
    ends_at_.reset();
    return true;
  }
  const std::string what =
      absl::StrCat("this server is member ", options_.member, ", which the configuration does not have");
  if (!was_member_) {
    Say(LogEvent::kClusterFailed,
        absl::StrCat(what, "; correct --member, or add it with `kvctl cluster add`"));
    return false;
  }
  // A primary that does not know yet waits for this member's answers, and reads the configuration in time.
  if (!ends_at_) ends_at_ = clock_.Now() + 4 * options_.failover_after;
  if (!orders_.lead && clock_.Now() < *ends_at_) return false;
  End(absl::StrCat(what, " any more: it was removed from the shard"), KeeperEnd::kRemoved);
  return false;
}

// --- The configuration ----------------------------------------------------------------------------------

void Keeper::Take(ShardConfiguration configuration, std::int64_t revision, std::string text) {
  // A new primary gets as long as an old one until it is heard.
  if (!now_ || now_->epoch != configuration.epoch) last_heard_ = clock_.Now();
  now_ = std::move(configuration);
  revision_ = revision;
  text_ = std::move(text);
}

bool Keeper::IsTaken(const ConfigStore::Value& value) const {
  return value.revision == revision_ && value.text == text_;
}

bool Keeper::Read(bool is_due) {
  if (!is_due) return now_.has_value();
  const absl::StatusOr<ConfigStore::Value> value = store_->Read(options_.key);
  next_read_ = clock_.Now() + 2 * options_.failover_after;
  if (value.ok() && value->revision == 0) return TakeNone();
  if (!value.ok()) {
    next_read_ = clock_.Now() + options_.failover_after / 2;
    Say(LogEvent::kClusterFailed, std::string(value.status().message()));
    return now_.has_value() && orders_.lead.has_value();
  }
  if (IsTaken(*value)) return true;
  absl::StatusOr<ShardConfiguration> read = DecodeConfiguration(value->text);
  if (!read.ok()) {
    Say(LogEvent::kClusterFailed, std::string(read.status().message()));
    return false;
  }
  Take(*std::move(read), value->revision, value->text);
  if (orders_.lead) Relink();
  return true;
}

bool Keeper::TakeNone() {
  next_read_ = clock_.Now() + options_.failover_after / 2;
  const std::optional<MemberReport> report = Order();
  if (!now_ && (!report || report->is_loading)) return false;
  const std::string none = absl::StrCat("etcd has no configuration at ", options_.key);
  constexpr char kLost[] = ": if etcd has lost its data, restore them, or see `kvctl cluster rebuild`";
  if (now_) {  // K17
    Say(LogEvent::kClusterFailed, absl::StrCat(none, " any more", kLost));
  } else if (!report->is_empty) {
    Say(LogEvent::kClusterFailed,
        absl::StrCat(none, ", and this server has data", kLost, "; else begin with an empty --data_dir"));
  } else if (options_.first.replicas.empty()) {
    Say(LogEvent::kClusterFailed, absl::StrCat(none, "; start a server with --initial_member"));
  } else {
    revision_ = 0;
    ShardConfiguration first = options_.first;
    first.change = RandomId();
    const auto made = store_->Swap(options_.key, 0, EncodeConfiguration(first));
    if (!made.ok()) Say(LogEvent::kClusterFailed, std::string(made.status().message()));
    next_read_ = clock_.Now();  // this one, or that of another member
  }
  return now_.has_value() && orders_.lead.has_value();
}

bool Keeper::Swap(absl::StatusOr<ShardConfiguration> next, std::string_view why) {
  if (!next.ok()) {
    Say(LogEvent::kClusterFailed, std::string(next.status().message()));
    return false;
  }
  next->change = RandomId();
  pending_ = Pending{.next = *next,
                     .text = EncodeConfiguration(*next),
                     .revision = revision_,
                     .was_unasked = !now_->IsInSync(self())};
  const absl::StatusOr<std::int64_t> swapped = store_->Swap(options_.key, revision_, pending_->text);
  if (absl::IsUnknown(swapped.status())) {
    Say(LogEvent::kClusterFailed, absl::StrCat(AbslView(why), ": ", swapped.status().message()));
    return false;
  }
  std::string text = std::move(pending_->text);
  pending_.reset();
  next_read_ = clock_.Now();
  if (!swapped.ok()) {
    Say(LogEvent::kClusterFailed, absl::StrCat(AbslView(why), ": ", swapped.status().message()));
    return false;
  }
  Take(*std::move(next), *swapped, std::move(text));
  log_.Write(LogEvent::kClusterChanged, absl::StrCat(AbslView(why), "; epoch ", now_->epoch, ", ",
                                                     now_->in_sync.size(), " members in sync"));
  return true;
}

bool Keeper::Settle() {
  if (!pending_) return true;
  const absl::StatusOr<std::int64_t> settled =
      store_->Settle(options_.key, pending_->revision, pending_->text);
  if (absl::IsUnknown(settled.status())) return false;
  next_read_ = clock_.Now();
  const Pending pending = *std::exchange(pending_, std::nullopt);
  if (!settled.ok()) return true;
  Take(pending.next, *settled, pending.text);
  log_.Write(LogEvent::kClusterChanged,
             absl::StrCat("a swap of which etcd had not told the outcome is in place; epoch ", now_->epoch));
  if (orders_.lead) {
    Count();
    Order();
  } else if (now_->primary == options_.member) {
    BeginToLead(pending.was_unasked);
  }
  return true;
}

// --- A follower -----------------------------------------------------------------------------------------

absl::StatusOr<Keeper::Position> Keeper::Ask(const std::string& id) {
  REMORA_ASSIGN_OR_RETURN(const Reply reply,
                          Call(id, kFollowAsks, clock_.Now() + options_.failover_after / 4));
  return Position{.last = static_cast<std::uint64_t>(reply.result),
                  .epoch = reply.version,
                  .is_primary = reply.slot == 1};
}

absl::StatusOr<Reply> Keeper::Call(const std::string& id, std::uint64_t condition, TimePoint deadline,
                                   std::uint64_t number) {
  std::unique_ptr<FollowerConnection>& connection = connections_[id];
  if (connection == nullptr) {
    FollowerAddress to = options_.credentials;
    REMORA_ASSIGN_OR_RETURN(to.address, rdma::ParseAddress(std::string(now_->AddressOf(id))));
    REMORA_ASSIGN_OR_RETURN(connection, FollowerConnection::Connect(to, clock_, deadline));
  }
  Request request;
  request.request_id = ++last_request_;
  request.operation = Operation::kFollow;
  request.condition = condition;
  request.payload_checksum = number;
  absl::Status status = connection->Send(0, request, {});
  while (status.ok() && clock_.Now() < deadline) {
    const auto answer = connection->Poll();
    status = answer.status();
    if (status.ok() && *answer && (*answer)->reply.request_id == last_request_) {
      const Reply& reply = (*answer)->reply;
      if (reply.status != ReplyStatus::kOk) return absl::FailedPreconditionError((*answer)->text);
      return reply;
    }
    if (status.ok() && !*answer) connection->Sleep(-1, 10);
  }
  connection.reset();
  return status.ok() ? absl::DeadlineExceededError("it does not answer") : status;
}

void Keeper::Follow(const MemberReport& report) {
  if (report.wish == MemberWish::kTakesOver) return Switch();
  if (report.is_loading) return;
  if (report.wish == MemberWish::kForces) return Force(report);
  if (now_->epoch == 0) {
    // The first replica begins; if it does not, another one does.
    const auto place =
        std::ranges::find(now_->replicas, options_.member, &Replica::id) - now_->replicas.begin();
    if (clock_.Now() < last_heard_ + place * 2 * options_.failover_after) return;
    if (!report.is_empty) {
      return Say(LogEvent::kClusterFailed,
                 "the shard has not begun, and this server has data; begin with an empty --data_dir");
    }
    if (!IsAnotherHere() && Swap(BeginShard(*now_, self()), "begins the shard")) BeginToLead(false);
    return;
  }
  if (now_->primary != options_.member) {
    const absl::StatusOr<Position> primary = Ask(now_->primary);
    if (primary.ok() && primary->is_primary && primary->epoch >= now_->epoch) last_heard_ = clock_.Now();
  } else if (!now_->MayTakeOver(self())) {
    return Say(LogEvent::kClusterFailed,
               "this member was the primary, and may have lost writes since; another one has to take over");
  }
  const Duration silence = clock_.Now() - last_heard_;
  const bool is_own = now_->primary == options_.member;
  if (!now_->MayTakeOver(self()) || (silence < options_.failover_after && !is_own)) return;
  const std::string text = text_;
  next_read_ = clock_.Now();
  if (!Read(true) || text_ != text || IsAnotherAhead(report, silence) || IsAnotherHere()) return;
  TakeOverFrom(is_own ? std::string("leads again")
                      : absl::StrCat("takes over from ", now_->primary, ", which does not answer"));
}

bool Keeper::IsAnotherAhead(const MemberReport& report, Duration silence) {
  int before = 0;  // members at the same position whose turn is first
  for (const Member& one : now_->in_sync) {
    if (one.id == options_.member || one.id == now_->primary) continue;
    const absl::StatusOr<Position> position = Ask(one.id);
    if (!position.ok()) continue;
    if (position->last > report.last) return true;
    if (position->last == report.last && one.id < options_.member) ++before;
  }
  return silence < options_.failover_after + before * options_.failover_after / 2;
}

void Keeper::TakeOverFrom(std::string_view why) {
  orders_.min_epoch = now_->epoch + 1;  // K7
  const std::optional<MemberReport> sealed = Order();
  if (!sealed) return;
  const bool was_unasked = !now_->IsInSync(self());
  if (Swap(TakeOver(*now_, self(), sealed->last + 1), why)) BeginToLead(was_unasked);
}

void Keeper::TakeCopy() {
  if (!Read(true)) return;
  if (now_->MayTakeOver(self())) {  // K11
    return End(
        "a copy of the primary's data has come, and the configuration counts on those here; started again, "
        "this server goes on with its own");
  }
  const absl::Status accepted = AcceptCopy(options_.data_dir);
  if (!accepted.ok()) return Say(LogEvent::kCopyFailed, std::string(accepted.message()));
  End("a copy of the primary's data has come; started again, this server goes on with it");
}

// --- A primary ------------------------------------------------------------------------------------------

void Keeper::BeginToLead(bool was_unasked) {
  connections_.clear();
  orders_.min_epoch = now_->epoch;
  absl::StatusOr<std::shared_ptr<const ClusterSlots>> slots = SlotsToServe();
  if (absl::IsFailedPrecondition(slots.status())) return End(std::string(slots.status().message()));
  // It takes over once more, from itself.
  if (!slots.ok()) return Say(LogEvent::kClusterFailed, std::string(slots.status().message()));
  orders_.lead = MemberOrders::Lead{.epoch = now_->epoch,
                                    .was_unasked = was_unasked,
                                    .versions_from = now_->versions_from,
                                    .slots = *std::move(slots)};
  if (division_ != nullptr) TakeSlots();
  Relink();
  if (has_ended_) return;
  const std::optional<MemberReport> led = Order();
  if (led && !led->failure.empty()) End(absl::StrCat("it cannot lead: ", led->failure));
}

bool Keeper::IsLeaderOf(const ShardConfiguration& configuration) const {
  return configuration.epoch == orders_.lead->epoch && configuration.primary == options_.member;
}

void Keeper::Relink() {
  if (!IsLeaderOf(*now_)) return;
  std::vector<Peer> peers;
  std::vector<FollowerAddress> followers;
  for (const Replica& one : now_->replicas) {
    if (one.id == options_.member) continue;
    absl::StatusOr<rdma::Address> address = rdma::ParseAddress(one.address);
    if (!address.ok()) return End(absl::StrCat("the address of ", one.id, ": ", address.status().message()));
    FollowerAddress to = options_.credentials;
    to.address = *std::move(address);
    followers.push_back(std::move(to));
    const auto before = std::ranges::find_if(
        peers_, [&](const Peer& peer) { return peer.id == one.id && peer.address == one.address; });
    peers.push_back(before != peers_.end() ? *before : Peer{.id = one.id, .address = one.address});
  }
  peers_ = std::move(peers);
  orders_.lead->followers = std::move(followers);
  Count();
}

void Keeper::Count() {
  orders_.counts.assign(peers_.size(), false);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const bool is_in_sync =
        std::ranges::find(now_->in_sync, peers_[i].id, &Member::id) != now_->in_sync.end();
    if (is_in_sync) peers_[i].joining.reset();
    orders_.counts[i] = peers_[i].joining.has_value() || is_in_sync;
  }
  orders_.has_minimum = now_->has_minimum();
  orders_.members = now_->replicas.size();
  orders_.in_sync = now_->in_sync.size();
  orders_.min_in_sync = now_->min_in_sync;
  orders_.confirmed = now_->complete.empty() ? std::nullopt : std::optional(orders_.confirmed.value_or(0));
}

void Keeper::Confirm() {
  const absl::StatusOr<ConfigStore::Value> value = store_->Read(options_.key);
  if (value.ok() && IsTaken(*value)) {
    orders_.confirmed = begun_;  // the report with this round is from before the read
  } else {
    next_read_ = clock_.Now();
  }
}

void Keeper::Lead(const MemberReport& report) {
  if (!IsLeaderOf(*now_)) {
    return End(absl::StrCat("member ", now_->primary, " is the primary, in epoch ", now_->epoch,
                            "; start this server again, and it follows"));
  }
  if (!report.disk_failure.empty() && IsDispensable(report)) {
    return End(absl::StrCat("another member takes over: ", report.disk_failure));
  }
  for (std::size_t i = 0; i < report.followers.size() && i < peers_.size(); ++i) {
    if (!pending_) LeadFollower(report, i);
  }
}

bool Keeper::IsDispensable(const MemberReport& report) const {
  if (now_->in_sync.size() <= now_->min_in_sync) return false;
  for (std::size_t i = 0; i < report.followers.size() && i < peers_.size(); ++i) {
    const MemberReport::Follower& follower = report.followers[i];
    const Member member{.id = peers_[i].id, .life = follower.life};
    if (follower.state == LinkState::kConnected && now_->IsInSync(member)) return true;
  }
  return false;
}

void Keeper::LeadFollower(const MemberReport& report, std::size_t at) {
  const MemberReport::Follower& follower = report.followers[at];
  const std::string& id = peers_[at].id;
  const bool is_there = follower.state == LinkState::kConnected;
  std::optional<TimePoint>& away_since = peers_[at].away_since;
  if (is_there) away_since.reset();
  if (!is_there && !away_since) away_since = clock_.Now();
  const auto member = std::ranges::find(now_->in_sync, id, &Member::id);
  if (member != now_->in_sync.end()) {
    const bool is_another = is_there && follower.life != 0 && follower.life != member->life;
    const bool is_away = away_since && clock_.Now() - *away_since >= options_.failover_after;
    if (!is_another && !is_away) return;
    const absl::StatusOr<ShardConfiguration> next = Shrink(*now_, options_.member, report.is_open, id);
    if (!next.ok()) return;  // it waits for the member
    if (!Swap(next, absl::StrCat("goes on without ", id))) return;
    Count();
    Order();
  } else if (is_there && report.is_open && follower.life != 0) {
    Add(report, at);
  } else if (peers_[at].joining) {
    peers_[at].joining.reset();  // no swap adds it
    Count();
    Order();
  }
}

void Keeper::Add(const MemberReport& report, std::size_t at) {
  const MemberReport::Follower& follower = report.followers[at];
  std::optional<std::uint64_t>& joining = peers_[at].joining;
  if (!joining) {
    if (follower.acknowledged + kCloseGroups < report.last) return;
    joining = 0;
    Count();
    const std::optional<MemberReport> ordered = Order();
    joining = ordered ? std::optional(ordered->begun) : std::nullopt;  // nothing: once more
    return;
  }
  // The report is behind the order that has it count.
  if (follower.acknowledged < report.published || follower.answered <= *joining) return;  // K10
  const std::string id = peers_[at].id;
  if (!Swap(Join(*now_, options_.member, {.id = id, .life = follower.life}),
            absl::StrCat(id, " is in sync"))) {
    return;
  }
  Count();
  Order();
}

}  // namespace remora
