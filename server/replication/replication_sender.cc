#include "server/replication/replication_sender.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/replication/gauge.h"
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
                                      bool is_synced, std::chrono::milliseconds lease_time) {
  source_.history = history;
  source_.is_synced = is_synced;
  source_.lease_time = lease_time;
  links_.reserve(followers.size());
  for (const FollowerAddress& to : followers) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<LinkThread> link, LinkThread::Start(to, source_, wake_));
    links_.push_back(std::move(link));
  }
  has_links_.store(true, std::memory_order_release);
  logged_.resize(links_.size());
  away_ = links_.size();
  for (std::size_t i = 0; i < links_.size(); ++i) shown_.SetState(i, LinkState::kAway);
  SetGauge(store_, Counter::kFollowersAway, away_);
  return absl::OkStatus();
}

void ReplicationSender::Ask(std::uint64_t round) {
  for (const std::unique_ptr<LinkThread>& link : links_) link->Ask(round);
}

std::uint64_t ReplicationSender::answered() const {
  std::uint64_t least = links_.empty() ? 0 : std::numeric_limits<std::uint64_t>::max();
  for (const std::unique_ptr<LinkThread>& link : links_) least = std::min(least, link->answered());
  return least;
}

std::uint64_t ReplicationSender::acknowledged() const {
  std::uint64_t least = links_.empty() ? 0 : std::numeric_limits<std::uint64_t>::max();
  for (const std::unique_ptr<LinkThread>& link : links_) least = std::min(least, link->acknowledged());
  return least;
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
    store_.Add(Counter::kGroupsShipped, static_cast<std::int64_t>(last - shipped_));
    shipped_ = last;
  }
  shown_.SetLastGroup(last);
  for (std::size_t i = 0; i < links_.size(); ++i) shown_.SetAcknowledged(i, links_[i]->acknowledged());
  const std::uint64_t acknowledged = this->acknowledged();
  bool busy = false;
  if (acknowledged > published_) {
    // It cannot fail: the store has this sink, and a follower acknowledges nothing that it was not sent.
    REMORA_CHECK(store_.Acknowledge(acknowledged).ok());
    store_.Add(Counter::kGroupsAcknowledged, static_cast<std::int64_t>(acknowledged - published_));
    published_ = acknowledged;
    groups_.Release(acknowledged);
    busy = true;
  }
  SetGauge(store_, Counter::kReplicationPending, groups_.bytes());
  return busy;
}

void ReplicationSender::LogChanges() {
  std::size_t away = 0;
  is_rejected_ = false;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    LinkThread::Status status = links_[i]->status();
    is_rejected_ |= status.state == LinkState::kRejected;
    away += status.state == LinkState::kConnected ? 0 : 1;
    if (status.state == logged_[i].state && status.text == logged_[i].text) continue;
    const std::string line =
        absl::StrCat("the follower at ", links_[i]->address().ToString(), ": ", status.text);
    shown_.SetState(i, status.state);
    switch (status.state) {
      case LinkState::kNone:
        break;
      case LinkState::kConnected:
        log_.Write(LogEvent::kFollowerConnected, line);
        break;
      case LinkState::kAway:
        log_.Write(LogEvent::kFollowerAway, absl::StrCat(line, "; writes wait for it"));
        break;
      case LinkState::kRejected:
        log_.Write(LogEvent::kFollowerRejected,
                   absl::StrCat(line, "; writes are rejected until that is settled"));
        break;
    }
    logged_[i] = std::move(status);
  }
  if (away == away_) return;
  away_ = away;
  SetGauge(store_, Counter::kFollowersAway, away);
  SetGauge(store_, Counter::kFollowers, links_.size() - away);
}

}  // namespace remora
