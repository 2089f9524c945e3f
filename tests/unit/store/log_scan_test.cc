// Scans of a store with a commit log of which much is not applied yet (C7 of
// store/durable/tier_log/tier_log.h).
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "store/delete_range.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "test_files.h"

namespace remora {
namespace {

class LogScanTest : public testing::Test {
 protected:
  void SetUp() override {
    StoreOptions options = LoggedIn(temp_ / "store", std::size_t{128} << 20);
    options.commit_log_bytes = std::uint64_t{256} << 20;
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Put(const std::string& key, const std::string& value) {
    Write write;
    write.key = key;
    write.value = value;
    store_->Commit(std::span(&write, 1));
    ASSERT_TRUE(write.status.ok()) << write.status;
  }
  /// Writes 20 MiB until `begin` ends with Aborted, which it does not if the applier is as quick. Returns
  /// whether it was so.
  template <typename Begin>
  bool WriteUntilAborted(const Begin& begin) {
    const std::string value(std::size_t{200} << 10, 'v');
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 100; ++i) Put(KeyOf(i), value);
      const absl::Status status = begin().status();
      if (absl::IsAborted(status)) return true;
      EXPECT_TRUE(status.ok()) << status;
      // Scans have the applier hurry for a minute. A store that is opened anew has had none.
      store_.reset();
      SetUp();
    }
    return false;
  }
  static std::string KeyOf(int i) { return "key " + std::to_string(1000 + i); }

  TempDir temp_;
  std::unique_ptr<ServerStore> store_;
};

TEST_F(LogScanTest, AServersScanLetsOthersWriteMeanwhile) {
  const auto begin = [this] { return store_->Scan(ScanRange{}, 0, /*keys_only=*/true); };
  ASSERT_TRUE(WriteUntilAborted(begin));
  int others = 0;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  absl::StatusOr<std::unique_ptr<StoreScan>> scan = begin();
  while (absl::IsAborted(scan.status()) && std::chrono::steady_clock::now() < give_up) {
    ASSERT_NO_FATAL_FAILURE(Put("other " + std::to_string(others++), "value"));
    scan = begin();
  }
  ASSERT_TRUE(scan.ok()) << scan.status();
  ASSERT_NO_FATAL_FAILURE(Put("other, later", "value"));
  int shown = 0;
  while ((*scan)->Next()) ++shown;
  EXPECT_EQ(shown, 100 + others);
}

TEST_F(LogScanTest, AServersDeletionOfARangeDoesSo) {
  const auto begin = [this] { return store_->BeginDeleteRangeWithoutWaiting({.prefix = "key "}); };
  ASSERT_TRUE(WriteUntilAborted(begin));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  absl::StatusOr<std::unique_ptr<RangeDeletion>> deletion = begin();
  while (absl::IsAborted(deletion.status()) && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
    deletion = begin();
  }
  ASSERT_TRUE(deletion.ok()) << deletion.status();
  while (*(*deletion)->Step()) {
  }
  EXPECT_EQ((*deletion)->deleted(), 100u);
}

TEST_F(LogScanTest, AScanOfAProgramWaits) {
  const std::string value(std::size_t{200} << 10, 'v');
  for (int i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), value));
  absl::StatusOr<std::unique_ptr<StoreScan>> scan = store_->Scan({.keys_only = true});
  ASSERT_TRUE(scan.ok()) << scan.status();
  int shown = 0;
  while ((*scan)->Next()) ++shown;
  EXPECT_EQ(shown, 100);
}

}  // namespace
}  // namespace remora
