// A store whose tests scan it, with RocksDB's log or with a commit log.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/test_clock.h"

namespace remora {

/// A commit log that tests fill several times.
inline constexpr std::uint64_t kSomeCommitLog = std::uint64_t{4} << 20;

class ScanFixture : public testing::Test {
 protected:
  /// `commit_log_bytes`: StoreOptions::commit_log_bytes, if the store is logged.
  explicit ScanFixture(std::uint64_t commit_log_bytes) : commit_log_bytes_(commit_log_bytes) {}

  void Open(StoreOptions options) {
    store_.reset();
    options.clock = &clock_;
    auto store = ServerStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  StoreOptions Logged() {
    StoreOptions options = LoggedIn(temp_ / "store");
    options.commit_log_bytes = commit_log_bytes_;
    return options;
  }
  void Put(const std::string& key, const std::string& value, const PutOptions& options = {}) {
    const absl::Status status = store_->Put(key, value, options);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string Get(std::string_view key) {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }

  TempDir temp_;
  ShiftedClock clock_;
  std::unique_ptr<ServerStore> store_;

 private:
  const std::uint64_t commit_log_bytes_;
};

}  // namespace remora
