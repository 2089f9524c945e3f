// Watches of a store where some writes are not logged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/server_store.h"
#include "store/watch.h"
#include "test_files.h"

namespace remora {
namespace {

using Keys = std::vector<std::string>;

class WatchGapsTest : public testing::Test {
 protected:
  WatchGapsTest() {
    Open();
    Put("first", {});  // raises the version limit, and so is logged
    watch_ = *store_->Watch();
  }
  void Open() {
    watch_.reset();
    store_.reset();
    auto store = ServerStore::Open(LoggedIn(temp_ / "store"));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Put(std::string_view key, std::optional<Durability> durability) {
    ASSERT_TRUE(store_->Put(key, "", {.durability = durability}).ok());
  }
  /// Returns the keys of the next `count` changes.
  Keys Take(std::size_t count) {
    Keys keys;
    while (keys.size() < count) {
      const absl::StatusOr<bool> came = watch_->Next(std::chrono::seconds(60));
      EXPECT_TRUE(came.ok() && *came) << came.status();
      if (!came.ok() || !*came) break;
      keys.emplace_back(watch_->key());
    }
    return keys;
  }

  const TempDir temp_;
  std::unique_ptr<ServerStore> store_;
  std::unique_ptr<StoreWatch> watch_;
};

TEST_F(WatchGapsTest, AWriteThatSharesAGroupWithALoggedOneIsShown) {
  std::array<Write, 2> group;
  group[0].key = "memory";
  group[0].durability = Durability::kMemory;
  group[1].key = "logged";
  store_->Commit(group);
  EXPECT_EQ(Take(2), Keys({"memory", "logged"}));
}

// The store keeps the writes that were not logged, and the log does not tell why it lacks them.
TEST_F(WatchGapsTest, BehindARestartAPlaceBeforeTheGapIsNotKept) {
  const std::string before = watch_->resume_token();
  Put("memory", Durability::kMemory);
  Put("logged", {});
  EXPECT_EQ(Take(1), Keys({"logged"}));
  const std::string behind = watch_->resume_token();
  Open();
  Put("last", {});
  watch_ = *store_->Watch({.resume_token = behind});
  EXPECT_EQ(Take(1), Keys({"last"}));
  watch_ = *store_->Watch({.resume_token = before});
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = watch_->Next(std::chrono::seconds(60)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("durability memory"));
  }
}

}  // namespace
}  // namespace remora
