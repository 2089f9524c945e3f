// Random writes of all levels of durability, against a map (store/write/sync_queue.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "patient_writes.h"
#include "store/server_store.h"
#include "synced_fixture.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

/// The writes that are synced or became visible at once, as a map, and those that are pending.
class SyncedModel {
 public:
  bool IsPending(const std::string& key) const {
    return std::ranges::find(pending_, key, &Pending::key) != pending_.end();
  }
  /// Returns true if a write that comes now finds the key.
  bool Exists(const std::string& key) const {
    const auto last = std::find_if(pending_.rbegin(), pending_.rend(),
                                   [&](const Pending& other) { return other.key == key; });
    return last != pending_.rend() ? last->value.has_value() : map_.contains(key);
  }
  void AddPending(const Write& write) {
    const bool deletes = write.kind == Write::Kind::kDelete;
    const std::string key(write.key);
    const bool is_rejected = deletes && !Exists(key);
    pending_.push_back(
        {write.ticket, key, deletes ? std::nullopt : std::optional<std::string>(write.value), is_rejected});
  }
  void AddVisible(const Write& write) {
    if (write.kind == Write::Kind::kDelete) {
      map_.erase(std::string(write.key));
    } else {
      map_[std::string(write.key)] = write.value;
    }
  }
  void Settle(const std::vector<SyncedWrite>& outcomes) {
    for (const SyncedWrite& outcome : outcomes) {
      ASSERT_TRUE(!pending_.empty() && pending_.front().ticket == outcome.ticket) << "in their order";
      const Pending& first = pending_.front();
      ASSERT_EQ(outcome.status.ok(), !first.is_rejected) << outcome.status;
      if (first.value) {
        map_[first.key] = *first.value;
      } else {
        map_.erase(first.key);
      }
      pending_.erase(pending_.begin());
    }
  }
  /// Returns the value that readers see, or "NOT_FOUND".
  std::string ValueOf(const std::string& key) const {
    const auto entry = map_.find(key);
    return entry == map_.end() ? "NOT_FOUND" : entry->second;
  }

 private:
  struct Pending {
    std::uint64_t ticket;
    std::string key;
    std::optional<std::string> value;
    bool is_rejected;
  };

  std::map<std::string, std::string> map_;
  std::vector<Pending> pending_;
};

TEST_F(SyncedTest, AgreesWithAMap) {
  std::mt19937_64 random(5);
  SyncedModel model;
  std::map<std::string, bool> gone_with_the_process;
  const auto settle = [&] {
    store_->Sync();
    std::vector<SyncedWrite> outcomes;
    store_->TakeSynced(&outcomes);
    model.Settle(outcomes);
  };
  const auto levels =
      std::to_array({Durability::kMemory, Durability::kLogged, Durability::kSynced, Durability::kSynced});
  for (int round = 0; round < 6000; ++round) {
    const std::string key = "key " + std::to_string(random() % 300);
    const std::string value = "value " + std::to_string(round) + std::string(random() % 90'000, 'x');
    const bool deletes = random() % 6 == 0;
    Write write = deletes ? DeleteOf(key) : PutOf(key, value);
    write.durability = levels[random() % 4];
    const bool exists = model.Exists(key);
    for (;;) {
      store_->Submit(std::span(&write, 1));
      if (write.ticket != 0 || !absl::IsAborted(write.status)) break;
      clock_.Advance(kPatience);
    }
    if (write.status.ok()) {
      gone_with_the_process[key] = write.ticket == 0 && write.durability == Durability::kMemory;
    }
    if (write.ticket != 0) {
      model.AddPending(write);
    } else if (write.status.ok()) {
      model.AddVisible(write);
    } else {
      ASSERT_TRUE(deletes && absl::IsNotFound(write.status) && !exists) << write.status;
    }
    if (random() % 10 == 0) {
      ASSERT_NO_FATAL_FAILURE(settle());
    }
    clock_.Advance(milliseconds(random() % 5));
    const std::string asked = "key " + std::to_string(random() % 300);
    if (model.IsPending(asked)) continue;
    ASSERT_TRUE(GetPatiently(*store_, clock_, asked) == model.ValueOf(asked)) << round << " " << asked;
  }
  ASSERT_NO_FATAL_FAILURE(settle());
  EXPECT_GT(store_->Read(Metric::kEvictions), 100u);
  Open();
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key " + std::to_string(i);
    if (gone_with_the_process[key]) continue;
    ASSERT_TRUE(GetPatiently(*store_, clock_, key) == model.ValueOf(key)) << key;
  }
}

}  // namespace
}  // namespace remora
