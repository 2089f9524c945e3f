// A primary with random writes, and two stores that follow it late and in bursts. Readers of the primary see
// the groups that are acknowledged, and nothing else. In the end all stores have the same content, and one of
// the followers goes on as the primary (store/durable/group_sink.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "replicated_fixture.h"
#include "store/delete_range.h"
#include "store/format/types/expiry.h"
#include "store/watch.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr int kModelKeys = 300;
constexpr std::uint64_t kClient = 7;

/// The keys as the visible groups leave them, and the keys of the groups behind. No store takes part.
class GroupModel {
 public:
  struct State {
    std::string value;
    std::uint64_t version = 0;
    std::uint64_t expiry_ms = 0;
  };
  struct Change {
    bool is_put = false;
    std::string key;
    std::uint64_t version = 0;
  };

  /// Notes the groups that are new. `synced`: they wait for an fsync.
  void Note(const KeptGroups& groups, bool synced) {
    for (; noted_ < groups.last(); ++noted_) {
      const ShippedGroup group = groups.Read(noted_ + 1);
      if (synced && group.first_version != 0) unsynced_.insert(group.number);
      for (const LogEntry& entry : group.entries) {
        if (entry.kind != LogEntryKind::kMeta) ++pending_[std::string(entry.key)];
      }
    }
  }
  void NoteSync() {
    unsynced_.clear();
    Publish();
  }
  void NoteAcknowledged(std::uint64_t number) {
    acknowledged_ = std::max(acknowledged_, number);
    Publish();
  }
  void Start(const KeptGroups& groups) {
    groups_ = &groups;
    noted_ = visible_ = acknowledged_ = groups.first() - 1;
  }

  bool IsPending(const std::string& key) const { return pending_.contains(key); }
  const State* Find(const std::string& key, std::int64_t unix_ms) const {
    const auto found = keys_.find(key);
    if (found == keys_.end() || HasExpired(found->second.expiry_ms, unix_ms)) return nullptr;
    return &found->second;
  }
  std::vector<SeenEntry> Contents(std::int64_t unix_ms) const {
    std::vector<SeenEntry> entries;
    for (const auto& [key, state] : keys_) {
      if (!HasExpired(state.expiry_ms, unix_ms))
        entries.push_back({key, state.value, state.version, state.expiry_ms});
    }
    return entries;
  }
  const std::vector<Change>& changes() const { return changes_; }
  std::uint64_t last_version() const { return last_version_; }

 private:
  void Publish() {
    while (visible_ < std::min(acknowledged_, noted_) && !unsynced_.contains(visible_ + 1)) {
      for (const LogEntry& entry : groups_->Read(++visible_).entries) {
        if (entry.kind == LogEntryKind::kMeta) continue;
        const std::string key(entry.key);
        if (--pending_[key] == 0) pending_.erase(key);
        const bool is_put = entry.kind == LogEntryKind::kPut;
        if (is_put) {
          keys_[key] = {std::string(entry.value), entry.version, entry.expiry_ms};
        } else {
          keys_.erase(key);
        }
        last_version_ = std::max(last_version_, entry.version);
        changes_.push_back({is_put, key, is_put ? entry.version : 0});
      }
    }
  }

  const KeptGroups* groups_ = nullptr;
  std::uint64_t noted_ = 0;
  std::uint64_t visible_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::set<std::uint64_t> unsynced_;
  std::map<std::string, State> keys_;
  std::map<std::string, int> pending_;  // the keys of the groups that are not visible, and how many of these
  std::vector<Change> changes_;         // of the visible groups
  std::uint64_t last_version_ = 0;
};

class ReplicationModelTest : public ReplicatedTest, public testing::WithParamInterface<int> {
 protected:
  /// Odd seeds: with an ordered index.
  ReplicationModelTest() : ReplicatedTest(/*in_order=*/GetParam() % 2 == 1) {
    for (const std::string& name : names_) followers_.push_back(Open(FollowerOptions(name)));
    EXPECT_TRUE(primary_->SetGroupSink(groups_.get()).ok());
    model_.Start(*groups_);
    Watch();
    // The first write of a store raises the limit of versions, so it is synced at once.
    Write first = PutOf("first", "");
    SubmitPatiently(*primary_, first);
    Note();
  }
  void Watch() {
    auto watch = primary_->Watch(WatchOptions{});
    ASSERT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
    watched_ = model_.changes().size();
  }

  std::uint64_t Draw(std::uint64_t below) { return random_() % below; }
  std::string DrawKey() { return "key " + std::to_string(Draw(kModelKeys)); }
  std::string DrawValue() {
    const std::uint64_t kind = Draw(40);
    const std::size_t size = kind == 0 ? 300'000 + Draw(400'000) : kind < 12 ? Draw(100) : Draw(120'000);
    return std::to_string(random_()) + std::string(size, static_cast<char>('a' + Draw(26)));
  }

  // --- What happens at the primary

  void Note(bool synced = false) { model_.Note(*groups_, synced); }
  /// Writes one to four keys, in a batch or not.
  void WriteSome() {
    const std::size_t count = Draw(3) > 0 ? 1 : 1 + Draw(4);
    const bool is_batch = count > 1 && Draw(2) == 0;
    std::vector<std::string> keys(count);
    std::vector<std::string> values(count);
    std::vector<Write> writes(count);
    const std::int64_t delta = static_cast<std::int64_t>(Draw(1000));
    const auto level = std::array{Durability::kMemory, Durability::kLogged, Durability::kSynced}[Draw(3)];
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = DrawKey();
      values[i] = is_batch ? std::string(Draw(1000), 'b') : DrawValue();
      Write& write = writes[i] = PutOf(keys[i], values[i]);
      const std::uint64_t kind = Draw(10);
      if (kind < 2) write = DeleteOf(keys[i]);
      if (!is_batch && kind == 2) {
        keys[i] = "number " + std::to_string(Draw(10));
        write.key = keys[i];
        write.kind = Write::Kind::kIncrement;
        write.value = {reinterpret_cast<const char*>(&delta), sizeof(delta)};
      }
      if (!is_batch && kind == 3 && values[i].size() < 1000) write.kind = Write::Kind::kAppend;
      if (!is_batch && kind == 4) write.kind = Write::Kind::kTouch;
      if (write.kind == Write::Kind::kTouch) write.value = {};
      if (write.kind != Write::Kind::kDelete && Draw(5) == 0) write.ttl = milliseconds(1 + Draw(3000));
      if (kind == 5) write.condition = Condition::Absent();
      if (kind == 6) write.condition = Condition::Present();
      write.durability = level;
      write.continues_batch = is_batch && i + 1 < count;
      if (Draw(4) == 0 && !is_batch) write.request = {kClient, ++request_};
    }
    for (std::span<Write> left = writes; !left.empty();) {
      primary_->Submit(left);
      Note(level == Durability::kSynced);
      for (; !left.empty() && (left.front().ticket != 0 || !absl::IsAborted(left.front().status));) {
        ASSERT_FALSE(left.front().ticket == 0 && left.front().status.ok()) << "nothing is visible at once";
        ASSERT_FALSE(absl::IsResourceExhausted(left.front().status)) << left.front().status;
        left = left.subspan(is_batch ? left.size() : 1);
      }
      if (!left.empty()) {
        clock_.Advance(kPatience);
        DeliverSome();
        SyncPrimary();
        AcknowledgeSome();
      }
    }
  }
  void DeleteRange() {
    const std::string begin = DrawKey();
    const std::string end = begin + "9";
    const auto deletion = primary_->BeginDeleteRange({.begin = begin, .end = end});
    if (absl::IsAborted(deletion.status())) return;
    ASSERT_TRUE(deletion.ok()) << deletion.status();
    (*deletion)->StepWithoutWaiting().IgnoreError();  // the rest stays
    Note();
  }
  void SyncPrimary() {
    if (primary_->Sync()) model_.NoteSync();
  }
  void AcknowledgeSome() {
    std::uint64_t all = groups_->last();
    for (const auto& follower : followers_) all = std::min(all, follower->last_group());
    if (all < groups_->first()) return;
    const std::uint64_t number = all - Draw(std::min<std::uint64_t>(all - groups_->first() + 1, 3));
    ASSERT_TRUE(primary_->Acknowledge(number).ok());
    model_.NoteAcknowledged(number);
    Note();  // groups of expired keys
  }

  // --- What happens at the followers

  void DeliverSome() {
    const std::size_t i = Draw(followers_.size());
    ServerStore& follower = *followers_[i];
    const std::uint64_t behind = groups_->last() - follower.last_group();
    Deliver(follower, *groups_, follower.last_group() + Draw(behind + 1));
    const std::uint64_t wrong = groups_->first() + Draw(groups_->last() - groups_->first() + 1);
    if (wrong != follower.last_group() + 1) {
      const absl::Status applied = follower.ApplyGroup(wrong, groups_->group(wrong));
      ASSERT_EQ(applied.code(), absl::StatusCode::kFailedPrecondition) << applied;
    }
    if (Draw(20) == 0) RestartFollower(i);
  }
  void RestartFollower(std::size_t i) {
    const std::uint64_t last = followers_[i]->last_group();
    followers_[i].reset();
    StoreOptions options = FollowerOptions(names_[i]);
    options.loading = Draw(2) == 0 ? Loading::kInOpen : Loading::kInSteps;
    followers_[i] = Open(options);
    ASSERT_EQ(followers_[i]->last_group(), last);
    for (std::uint64_t steps = Draw(20); steps > 0 && followers_[i]->Load(); --steps) {
    }
  }

  // --- What readers see

  void ReadSome() {
    const std::string key = Draw(8) == 0 ? "number " + std::to_string(Draw(10)) : DrawKey();
    absl::StatusOr<Location> location = primary_->Locate(key);
    for (; absl::IsAborted(location.status()); location = primary_->Locate(key)) {
      if (model_.IsPending(key)) return;  // it is cold
      clock_.Advance(kPatience);
      Note();
    }
    Note();
    const GroupModel::State* const known = model_.Find(key, clock_.UnixMillis());
    ASSERT_EQ(location.ok(), known != nullptr) << key << " " << location.status();
    if (known == nullptr) return;
    ASSERT_EQ(location->version, known->version) << key;
    std::string value;
    ASSERT_TRUE(primary_->Get(key, &value).ok());
    ASSERT_TRUE(value == known->value) << key;
  }
  void ScanPrimary() {
    const auto scan = primary_->Scan({});
    Note();
    if (absl::IsAborted(scan.status())) return;
    ASSERT_TRUE(scan.ok()) << scan.status();
    std::vector<SeenEntry> entries;
    while ((*scan)->Next()) {
      const StoreScan& at = **scan;
      entries.push_back({std::string(at.key()), std::string(at.value()), at.version(), at.expiry_ms()});
    }
    // The large record of a key that is cold, and whose next write is pending.
    if (in_order_ && absl::IsAborted((*scan)->status())) return;
    ASSERT_TRUE((*scan)->status().ok()) << (*scan)->status();
    ASSERT_TRUE(entries == model_.Contents(clock_.UnixMillis()));
    ++scans_;
  }
  void ReadWatch() {
    for (;;) {
      const absl::StatusOr<bool> came = watch_->Next(milliseconds(0));
      Note();
      ASSERT_TRUE(came.ok()) << came.status();
      if (!*came) return;
      ASSERT_LT(watched_, model_.changes().size()) << "a change that is not acknowledged: " << watch_->key();
      const GroupModel::Change& change = model_.changes()[watched_++];
      ASSERT_EQ(watch_->key(), change.key);
      ASSERT_EQ(watch_->kind() == ChangeKind::kPut, change.is_put);
      ASSERT_EQ(watch_->version(), change.version);
    }
  }

  void Round() {
    const std::uint64_t what = Draw(100);
    if (what < 40) return WriteSome();
    if (what < 42) return DeleteRange();
    if (what < 55) return DeliverSome();
    if (what < 65) return AcknowledgeSome();
    if (what < 72) return SyncPrimary();
    if (what < 75) return ReadWatch();
    if (what < 76) return ScanPrimary();
    if (what < 80) {
      clock_.Advance(milliseconds(Draw(200)));
      primary_->RunMaintenance();
      for (const auto& follower : followers_) follower->RunMaintenance();
      return Note();
    }
    if (what < 81 && Draw(5) == 0) {
      ASSERT_TRUE(primary_->RegisterClient(Draw(2) == 0 ? kClient : 1000 + Draw(10), {}).ok());
      return Note();
    }
    ReadSome();
  }
  /// Returns the first entry that one of both lacks, or has otherwise.
  static std::string Difference(const std::vector<SeenEntry>& one, const std::vector<SeenEntry>& other) {
    const auto [a, b] = std::ranges::mismatch(one, other);
    const auto text = [](const SeenEntry& entry) {
      return entry.key + " of version " + std::to_string(entry.version) + ", expires " +
             std::to_string(entry.expiry_ms) + ", " + std::to_string(entry.value.size()) + " bytes";
    };
    const std::string first = a == one.end() ? "" : text(*a);
    const std::string second = b == other.end() ? "" : text(*b);
    return first == second ? first : first + " | " + second;
  }
  /// Brings all groups everywhere, and compares all stores.
  void Settle() {
    while (primary_->RunMaintenance()) {
    }
    Note();
    for (const auto& follower : followers_) Deliver(*follower, *groups_, groups_->last());
    SyncPrimary();
    ASSERT_TRUE(primary_->Acknowledge(groups_->last()).ok());
    model_.NoteAcknowledged(groups_->last());
    ASSERT_EQ(primary_->last_group(), groups_->last());
    // Expired keys that the primary has not removed are on all disks.
    clock_.StepUnix(-std::chrono::hours(1));
    const std::vector<SeenEntry> expected = model_.Contents(clock_.UnixMillis());
    EXPECT_EQ(Difference(Contents(*primary_), expected), "");
    for (const auto& follower : followers_) EXPECT_EQ(Difference(Contents(*follower), expected), "");
    for (const SeenEntry& entry : expected) {
      for (const auto& follower : followers_) {
        ASSERT_TRUE(GetPatiently(*follower, clock_, entry.key) == entry.value) << entry.key;
        ASSERT_EQ(follower->Locate(entry.key).value().version, entry.version) << entry.key;
      }
    }
    clock_.StepUnix(std::chrono::hours(1));
  }
  /// Makes the first follower the primary. The others follow it.
  void FailOver() {
    primary_.reset();
    for (const auto& follower : followers_) Deliver(*follower, *groups_, groups_->last());
    model_.NoteSync();
    model_.NoteAcknowledged(groups_->last());
    while (followers_[0]->Load()) {
    }
    auto next = std::make_unique<KeptGroups>(groups_->last() + 1);
    ASSERT_TRUE(followers_[0]->Promote(next.get()).ok());
    primary_ = std::move(followers_[0]);
    followers_.erase(followers_.begin());
    names_.erase(names_.begin());
    groups_ = std::move(next);
    model_.Start(*groups_);
    watch_.reset();
    Note();
    Watch();
    Write first = PutOf("first of the new primary", "");
    SubmitPatiently(*primary_, first);
    Note();
    ASSERT_GT(groups_->Read(groups_->last()).last_version, model_.last_version());
  }

  std::mt19937_64 random_{static_cast<std::uint64_t>(GetParam())};
  std::unique_ptr<KeptGroups> groups_ = std::make_unique<KeptGroups>();
  std::vector<std::string> names_ = {"a", "b"};  // directories of the followers
  std::vector<std::unique_ptr<ServerStore>> followers_;
  std::unique_ptr<ServerStore> primary_ = Open(Options("primary"));
  std::unique_ptr<StoreWatch> watch_;
  std::size_t watched_ = 0;  // changes that the watch has shown
  GroupModel model_;
  std::uint64_t request_ = 0;
  int scans_ = 0;
};

TEST_P(ReplicationModelTest, ReadersSeeWhatIsAcknowledgedAndFollowersWhatThePrimaryHas) {
  for (int reign = 0; reign < 2; ++reign) {
    for (int round = 0; round < 2000; ++round) {
      ASSERT_NO_FATAL_FAILURE(Round()) << reign << " " << round;
    }
    ASSERT_NO_FATAL_FAILURE(Settle());
    ASSERT_NO_FATAL_FAILURE(ReadWatch());
    EXPECT_EQ(watched_, model_.changes().size());
    EXPECT_GT(primary_->Read(Metric::kEvictions) + followers_.back()->Read(Metric::kEvictions), 20u);
    EXPECT_GT(scans_, 3);
    for (std::size_t i = 0; i < followers_.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(RestartFollower(i));
      while (followers_[i]->Load()) {
      }
    }
    if (reign == 0) {
      ASSERT_NO_FATAL_FAILURE(FailOver());
    }
  }
  watch_.reset();
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReplicationModelTest, testing::Range(0, 4));

}  // namespace
}  // namespace remora
