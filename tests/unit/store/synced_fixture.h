// Support for tests of writes that are on disk before readers see them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {

inline Write PutOf(std::string_view key, std::string_view value, std::optional<Durability> level = {}) {
  Write write;
  write.key = key;
  write.value = value;
  write.durability = level;
  return write;
}

inline Write DeleteOf(std::string_view key, std::optional<Durability> level = {}) {
  Write write;
  write.durability = level;
  write.kind = Write::Kind::kDelete;
  write.key = key;
  return write;
}

/// A store that calls fsync only when the test says so.
class SyncedTest : public testing::Test {
 protected:
  SyncedTest() { Open(); }
  void Open(std::size_t memory_size = kMinMemorySize, Durability level = Durability::kSynced) {
    store_.reset();
    StoreOptions options = LoggedIn(temp_ / "store", memory_size);
    options.durability = level;
    options.syncing = Syncing::kInSteps;
    options.clock = &clock_;
    auto store = ServerStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    // The first write raises the version limit, and is therefore synced at once.
    ASSERT_TRUE(store_->Put("first", "", {.durability = Durability::kLogged}).ok());
  }
  /// Returns the result of each write: the name of its status, or "pending".
  std::vector<std::string> Submit(std::vector<Write> writes) {
    store_->Submit(writes);
    std::vector<std::string> outcomes;
    tickets_.clear();
    for (const Write& write : writes) {
      tickets_.push_back(write.ticket);
      outcomes.push_back(write.ticket != 0 ? "pending" : absl::StatusCodeToString(write.status.code()));
    }
    return outcomes;
  }
  std::vector<SyncedWrite> Sync() {
    EXPECT_TRUE(store_->Sync());
    std::vector<SyncedWrite> outcomes;
    store_->TakeSynced(&outcomes);
    return outcomes;
  }
  std::string Get(std::string_view key) {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }
  using Outcomes = std::vector<std::string>;

  const TempDir temp_;
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_;
  std::vector<std::uint64_t> tickets_;
};

}  // namespace remora
