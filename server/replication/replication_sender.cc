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
                const MutexLock lock(mutex_);
                for (LinkThread* const link : woken_) link->Wake();
              }),
      source_{.groups = {.shipped = groups_,
                         .read = [&store](std::uint64_t from) { return store.ReadGroups(from); }}} {}

ReplicationSender::~ReplicationSender() { End(); }

void ReplicationSender::End() {
  {
    const MutexLock lock(mutex_);
    woken_.clear();
  }
  for (const std::unique_ptr<LinkThread>& link : links_) link->Stop();  // all, before one is awaited
  links_.clear();
  stopped_.clear();
}

absl::Status ReplicationSender::Start(const std::vector<FollowerAddress>& followers, const History& history,
                                      bool is_synced, std::chrono::milliseconds lease_time,
                                      LinkThread::Copies copies) {
  source_.history = history;
  source_.is_synced = is_synced;
  source_.lease_time = lease_time;
  source_.copies = std::move(copies);
  return SetFollowers(followers);
}

absl::Status ReplicationSender::SetFollowers(const std::vector<FollowerAddress>& followers) {
  const auto leads_to = [](const std::unique_ptr<LinkThread>& link, const FollowerAddress& to) {
    return link->address().ToString() == to.address.ToString();
  };
  if (std::ranges::equal(links_, followers, leads_to)) return absl::OkStatus();
  constexpr std::size_t kNew = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> before;  // by followers: the place of its link until now
  std::vector<std::unique_ptr<LinkThread>> links;
  // None is kept if one cannot be started: then no follower has acknowledged anything (R10).
  for (const FollowerAddress& to : followers) {
    std::size_t at = 0;
    while (at < links_.size() && (!leads_to(links_[at], to) || std::ranges::find(before, at) != before.end()))
      ++at;
    before.push_back(at < links_.size() ? at : kNew);
    links.emplace_back();
    if (at < links_.size()) continue;
    REMORA_ASSIGN_OR_RETURN(links.back(), LinkThread::Start(to, source_, wake_));
  }
  std::vector<Told> told(links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (before[i] == kNew) continue;
    links[i] = std::move(links_[before[i]]);
    told[i] = std::move(told_[before[i]]);
  }
  std::swap(links_, links);
  told_ = std::move(told);
  ShowLinks();
  for (std::unique_ptr<LinkThread>& link : links) {
    if (link == nullptr) continue;
    link->Stop();
    stopped_.push_back(std::move(link));
  }
  return absl::OkStatus();
}

void ReplicationSender::ShowLinks() {
  std::vector<FollowerActivity> shown;
  {
    const MutexLock lock(mutex_);
    woken_.clear();
    for (const std::unique_ptr<LinkThread>& link : links_) woken_.push_back(link.get());
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    shown.push_back({.address = links_[i]->address().ToString(),
                     .state = told_[i].status.state,
                     .acknowledged = told_[i].acknowledged});
  }
  shown_.Show(std::move(shown));
  LogChanges();
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
  std::erase_if(stopped_, [](const std::unique_ptr<LinkThread>& link) { return link->has_ended(); });
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
