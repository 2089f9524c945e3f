// A store of which tests make keys cold, so that only the durable tier has their records.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "patient_writes.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {

class ColdFixture : public testing::Test {
 protected:
  ColdFixture() {
    options_ = LoggedIn(temp_ / "store", kMinMemorySize);
    options_.grace = std::chrono::milliseconds(kMinGraceMs);
    options_.clock = &clock_;
    options_.syncing = Syncing::kInSteps;
    Open();
  }
  void Open(Loading loading = Loading::kInOpen) {
    store_.reset();
    options_.loading = loading;
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  static Write WriteOf(Write::Kind kind, std::string_view key, std::string_view value = {}) {
    Write write;
    write.kind = kind;
    write.key = key;
    write.value = value;
    return write;
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(CommitPatiently(*store_, clock_, WriteOf(Write::Kind::kPut, key, value)).ok());
  }
  void Delete(const std::string& key) {
    ASSERT_TRUE(CommitPatiently(*store_, clock_, WriteOf(Write::Kind::kDelete, key)).ok());
  }
  /// Writes so many other keys that the records of all keys before leave memory.
  void EvictAll() {
    constexpr int kOthers = 2000;  // twice what the memory holds
    for (int i = 0; i < kOthers; ++i) Put("other " + std::to_string(i), std::string(16'000, 'o'));
  }
  void PutCold(const std::string& key, const std::string& value) {
    ASSERT_NO_FATAL_FAILURE(Put(key, value));
    ASSERT_NO_FATAL_FAILURE(EvictAll());
  }
  std::string Get(const std::string& key) { return GetPatiently(*store_, clock_, key); }

  TempDir temp_;
  ManualClock clock_;
  StoreOptions options_;
  std::unique_ptr<ServerStore> store_;
};

}  // namespace remora
