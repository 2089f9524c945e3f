// Watches of a store in steps, at a time that the test sets: of a store with or without a commit log, or only
// in memory.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/server_store.h"
#include "store/watch.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {

using Lines = std::vector<std::string>;

/// The log of a watched store.
struct WatchedLog {
  std::uint64_t commit_log_bytes = 0;  // of StoreOptions
  std::uint64_t change_log_bytes = 0;  // likewise; not 0: the store is only in memory
};

class WatchFixture : public testing::Test {
 protected:
  explicit WatchFixture(const WatchedLog& log) : log_(log) { Open(); }

  StoreOptions Options() {
    StoreOptions options = LoggedIn(temp_ / "store");
    if (log_.change_log_bytes > 0) {
      options.durability = Durability::kMemory;
      options.data_dir.clear();
      options.change_log_bytes = log_.change_log_bytes;
    }
    options.syncing = Syncing::kInSteps;
    options.clock = &clock_;
    options.watch_retention_bytes = retention_bytes_;
    options.watch_retention = retention_;
    options.commit_log_bytes = log_.commit_log_bytes;
    return options;
  }
  void Open() {
    watch_.reset();
    store_.reset();
    auto store = ServerStore::Open(Options());
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = std::move(store).value();  // throws, and that ends the test
  }
  /// Brings the store back to its state at `Keep`, and loses all later writes.
  void Restore() {
    watch_.reset();
    store_.reset();
    std::filesystem::remove_all(temp_ / "store");
    std::filesystem::copy(temp_ / "kept", temp_ / "store", std::filesystem::copy_options::recursive);
    Open();
  }
  void Keep() {
    store_.reset();
    std::filesystem::copy(temp_ / "store", temp_ / "kept", std::filesystem::copy_options::recursive);
    Open();
  }
  void Put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    ASSERT_TRUE(store_->Put(key, value, options).ok());
  }
  absl::Status Begin(std::string_view token = {}, std::string_view prefix = {}) {
    auto watch = store_->Watch({.prefix = prefix, .resume_token = token});
    if (!watch.ok()) return watch.status();
    watch_ = *std::move(watch);
    return absl::OkStatus();
  }
  /// Returns the remaining changes, each as "key=value" or
  /// "-key". If the watch fails, the last line is the error.
  Lines Rest() {
    Lines lines;
    for (;;) {
      const absl::StatusOr<bool> came = watch_->Next(std::chrono::milliseconds(0));
      if (!came.ok()) lines.push_back(absl::StatusCodeToString(came.status().code()));
      if (!came.ok() || !*came) return lines;
      std::string line = watch_->kind() == ChangeKind::kDelete ? "-" : "";
      line += watch_->key();
      if (watch_->kind() == ChangeKind::kPut) line.append("=").append(watch_->value());
      lines.push_back(line);
    }
  }

  const TempDir temp_;
  WatchedLog log_;
  std::uint64_t retention_bytes_ = StoreOptions().watch_retention_bytes;
  std::chrono::seconds retention_{0};
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_;
  std::unique_ptr<StoreWatch> watch_;
};

}  // namespace remora
