#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "store/recovery/index_loader.h"
#include "store/server_store.h"
#include "test_files.h"

namespace remora {
namespace {

std::unique_ptr<ServerStore> OpenOrDie(const StoreOptions& options) {
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

StoreOptions AllInMemory(const std::string& dir, std::size_t memory_size) {
  StoreOptions options = LoggedIn(dir, memory_size);
  options.eviction = Eviction::kNone;
  return options;
}

void ExpectEqual(const ServerStore& store, const std::map<std::string, std::string>& expected) {
  EXPECT_EQ(store.Read(Metric::kKeys), expected.size());
  std::string value;
  for (const auto& [key, wanted] : expected) {
    ASSERT_TRUE(store.Get(key, &value).ok()) << key;
    ASSERT_EQ(value, wanted) << key;
  }
}

TEST(LoadTest, RandomOperationsAreThereAfterEachRestart) {
  TempDir temp;
  std::map<std::string, std::string> oracle;
  std::mt19937_64 random(1);
  for (int restart = 0; restart < 4; ++restart) {
    const auto store = OpenOrDie(LoggedIn(temp / "store"));
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(*store, oracle));
    for (int i = 0; i < 2000; ++i) {
      const std::string key = "key" + std::to_string(random() % 300) + std::string(random() % 3 * 100, 'k');
      if (random() % 4 == 0) {
        const absl::Status status = store->Delete(key);
        ASSERT_EQ(status.ok(), oracle.erase(key) == 1) << status;
      } else {
        std::string value(random() % 2000, static_cast<char>('a' + random() % 26));
        ASSERT_TRUE(store->Put(key, value).ok());
        oracle[key] = std::move(value);
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(*store, oracle));
  }
}

TEST(LoadTest, VersionsGrowAcrossRestarts) {
  TempDir temp;
  std::uint64_t last = 0;
  for (int restart = 0; restart < 3; ++restart) {
    const auto store = OpenOrDie(LoggedIn(temp / "store"));
    if (restart > 0) {
      EXPECT_EQ(store->Locate("stays")->version, 1u) << "a record keeps its version";
    }
    for (const char* key : {"stays", "a", "b"}) {
      if (restart > 0 && std::string(key) == "stays") continue;
      Write write;
      write.key = key;
      store->Commit(std::span(&write, 1));
      ASSERT_TRUE(write.status.ok());
      ASSERT_GT(write.version, last);
      last = write.version;
      EXPECT_EQ(store->Read(Metric::kLastVersion), last);
    }
  }
}

// A restart drops dead records.
TEST(LoadTest, ARestartCompacts) {
  TempDir temp;
  const StoreOptions options = LoggedIn(temp / "store", kMinMemorySize);
  {
    const auto store = OpenOrDie(options);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(store->Put("key", std::string(50'000, 'v')).ok());
    EXPECT_GT(store->Read(Metric::kLogBytesUsed), 1'000'000u);
  }
  EXPECT_LT(OpenOrDie(options)->Read(Metric::kLogBytesUsed), 100'000u);
}

TEST(LoadTest, TheErrorNamesASufficientMemory) {
  TempDir temp;
  {
    const auto store = OpenOrDie(LoggedIn(temp / "store", std::size_t{64} << 20));
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(store->Put("key" + std::to_string(i), std::string(100'000, 'v')).ok());
    }
  }
  const absl::Status status = ServerStore::Open(AllInMemory(temp / "store", kMinMemorySize)).status();
  ASSERT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "200 keys")) << status;
  const std::string message(status.message());
  const std::string_view before = "about ";
  const std::size_t needed =
      std::strtoull(message.c_str() + message.find(before) + before.size(), nullptr, 10);
  EXPECT_GT(needed, 20'000'000u);
  const auto store = OpenOrDie(AllInMemory(temp / "store", needed));
  EXPECT_EQ(store->Read(Metric::kKeys), 200u) << "what it said would do does";
}

// Keys whose records do not fit are cold after the load, and are still found.
TEST(LoadTest, MoreThanMemoryHolds) {
  TempDir temp;
  std::map<std::string, std::string> oracle;
  {
    const auto store = OpenOrDie(LoggedIn(temp / "store", std::size_t{64} << 20));
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
      std::string& value = oracle["key" + std::to_string(i)];
      value.assign(1 + random() % 3000, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(store->Put("key" + std::to_string(i), value).ok());
    }
  }
  for (const Loading loading : {Loading::kInOpen, Loading::kInBackground, Loading::kInSteps}) {
    StoreOptions options = LoggedIn(temp / "store", kMinMemorySize);
    options.loading = loading;
    const auto store = OpenOrDie(options);
    if (loading != Loading::kInBackground) {
      EXPECT_EQ(store->loading(), loading == Loading::kInSteps);
    }
    while (store->Load() || (store->loading() && store->load_status().ok())) {
    }
    ASSERT_FALSE(store->loading()) << store->load_status();
    EXPECT_GT(store->Read(Metric::kColdKeys), oracle.size() / 3);
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(*store, oracle));
  }
}

TEST(LoadTest, ManySmallKeysThatDoNotFitSayWhatWouldDo) {
  TempDir temp;
  std::uint64_t keys = 0;
  {
    const auto store = OpenOrDie(LoggedIn(temp / "store", std::size_t{64} << 20));
    std::vector<std::string> names(400'000);
    std::vector<Write> writes(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      names[i] = std::to_string(i);
      writes[i].key = names[i];
    }
    store->Commit(writes);
    keys = store->Read(Metric::kKeys);
    ASSERT_EQ(keys, names.size());
  }
  const absl::Status status = ServerStore::Open(AllInMemory(temp / "store", kMinMemorySize)).status();
  ASSERT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  const std::string message(status.message());
  const std::size_t needed = std::strtoull(message.c_str() + message.find("about ") + 6, nullptr, 10);
  EXPECT_EQ(OpenOrDie(AllInMemory(temp / "store", needed))->Read(Metric::kKeys), keys);
}

}  // namespace
}  // namespace remora
