#include "server/replication/replication_sender.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/replication/gauge.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {

ReplicationSender::ReplicationSender(ServerStore& store, const OperatorLog& log, FollowerActivities& shown,
                                     std::function<void()> wake)
    : store_(store),
      log_(log),
      shown_(shown),
      wake_(std::move(wake)),
      published_(store.last_group()),
      shipped_(published_),
      groups_(published_ + 1,
              [this] {
                if (!has_links_.load(std::memory_order_acquire)) return;
                for (const std::unique_ptr<LinkThread>& link : links_) link->Wake();
              }),
      source_{.groups = {.shipped = groups_,
                         .read = [&store](std::uint64_t from) { return store.ReadGroups(from); }}} {}

ReplicationSender::~ReplicationSender() { End(); }

void ReplicationSender::End() {
  has_links_.store(false, std::memory_order_release);
  for (const std::unique_ptr<LinkThread>& link : links_) link->Stop();  // all, before one is awaited
  links_.clear();
}

absl::Status ReplicationSender::Start(const std::vector<FollowerAddress>& followers, const History& history,
                                      bool is_synced, std::chrono::milliseconds lease_time,
                                      LinkThread::Copies copies) {
  source_.history = history;
  source_.is_synced = is_synced;
  source_.lease_time = lease_time;
  source_.copies = std::move(copies);
  // None is kept if one cannot be started: then no follower has acknowledged anything (R10).
  std::vector<std::unique_ptr<LinkThread>> links;
  std::vector<std::string> addresses;
  for (const FollowerAddress& to : followers) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<LinkThread> link, LinkThread::Start(to, source_, wake_));
    links.push_back(std::move(link));
    addresses.push_back(to.address.ToString());
  }
  links_ = std::move(links);
  has_links_.store(true, std::memory_order_release);
  told_.resize(links_.size());
  away_ = links_.size();
  shown_.Begin(std::move(addresses));
  SetGauge(store_, Metric::kFollowersAway, away_);
  return absl::OkStatus();
}

void ReplicationSender::SetCounts(Counts counts) {
  const bool changes = !counts_ || counts_->links != counts.links;
  counts_ = std::move(counts);
  if (changes) LogChanges();
}

void ReplicationSender::Ask(std::uint64_t round) {
  for (const std::unique_ptr<LinkThread>& link : links_) link->Ask(round);
}

std::uint64_t ReplicationSender::Least(std::uint64_t (LinkThread::*of)() const) const {
  // The followers of a fixed set count from the start on, and the links may come later, or never.
  if (links_.size() < (counts_ ? counts_->links.size() : 1)) return 0;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (IsCounted(i)) least = std::min(least, ((*links_[i]).*of)());
  }
  return least;
}

std::uint64_t ReplicationSender::answered() const {
  const std::uint64_t least = Least(&LinkThread::answered);
  return counts_ ? std::min(least, counts_->last_round) : least;  // K10
}

std::uint64_t ReplicationSender::acknowledged() const {
  const std::uint64_t least = Least(&LinkThread::acknowledged);
  return counts_ ? std::min({least, groups_.last(), counts_->last_group}) : least;  // K2
}

std::vector<MemberReport::Follower> ReplicationSender::followers() const {
  std::vector<MemberReport::Follower> all;
  for (const std::unique_ptr<LinkThread>& link : links_) {
    MemberReport::Follower one{.state = link->status().state, .life = link->life()};
    one.acknowledged = link->acknowledged();
    one.answered = link->answered();
    if (one.life != link->life()) one = {};
    all.push_back(one);
  }
  return all;
}

bool ReplicationSender::Step() {
  std::uint64_t changes = 0;
  for (const std::unique_ptr<LinkThread>& link : links_) changes += link->changes();
  if (changes != changes_) {
    changes_ = changes;
    LogChanges();
  }
  const std::uint64_t last = groups_.last();
  if (last != shipped_) {
    store_.Add(Metric::kGroupsShipped, static_cast<std::int64_t>(last - shipped_));
    shipped_ = last;
    shown_.SetLastGroup(last);
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const std::uint64_t by_link = links_[i]->acknowledged();
    if (std::exchange(told_[i].acknowledged, by_link) != by_link) shown_.SetAcknowledged(i, by_link);
  }
  const std::uint64_t acknowledged = this->acknowledged();
  bool busy = false;
  if (acknowledged > published_) {
    // It cannot fail: the store has this sink, and a follower acknowledges nothing that it was not sent.
    REMORA_CHECK(store_.Acknowledge(acknowledged).ok());
    store_.Add(Metric::kGroupsAcknowledged, static_cast<std::int64_t>(acknowledged - published_));
    published_ = acknowledged;
    groups_.Release(acknowledged);
    busy = true;
  }
  SetGauge(store_, Metric::kReplicationPending, groups_.bytes());
  return busy;
}

std::string_view ReplicationSender::Consequence(LinkState state, std::size_t link) const {
  if (state == LinkState::kConnected || state == LinkState::kCopies) return "";
  if (counts_) return IsCounted(link) ? "; writes wait until it is given up" : "";
  return state == LinkState::kAway ? "; writes wait for it" : "; writes are rejected until that is settled";
}

void ReplicationSender::LogChanges() {
  std::size_t away = 0, connected = 0;
  is_rejected_ = false;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    LinkThread::Status status = links_[i]->status();
    is_rejected_ |= !counts_ && status.state == LinkState::kRejected;
    const bool is_connected = status.state == LinkState::kConnected;
    away += is_connected || !IsCounted(i) ? 0 : 1;
    connected += is_connected ? 1 : 0;
    if (status.state == told_[i].status.state && status.text == told_[i].status.text) continue;
    const std::string line = absl::StrCat("the follower at ", links_[i]->address().ToString(), ": ",
                                          status.text, AbslView(Consequence(status.state, i)));
    shown_.SetState(i, status.state);
    switch (status.state) {
      case LinkState::kConnected:
        log_.Write(LogEvent::kFollowerConnected, line);
        break;
      case LinkState::kAway:
        log_.Write(LogEvent::kFollowerAway, line);
        break;
      case LinkState::kRejected:
        log_.Write(LogEvent::kFollowerRejected, line);
        break;
      case LinkState::kCopies:
        log_.Write(LogEvent::kFollowerCopied, line);
        break;
    }
    told_[i].status = std::move(status);
  }
  away_ = away;
  SetGauge(store_, Metric::kFollowersAway, away);
  SetGauge(store_, Metric::kFollowers, connected);
}

}  // namespace remora
