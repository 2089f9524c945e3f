// Scans over the ordered index of a store with a disk, beside a writer in another thread.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scan_fixture.h"
#include "store/scan.h"
#include "store/server_store.h"

namespace remora {
namespace {

// V1 and V8: each batch writes the number of the batch to a key of a group, and to the first and the last key
// of that group. These two are mostly in memory when a scan copies them, and the others mostly cold: those
// are read without the lock, beside other writes.
// The parameter: the size of the commit log; 0: none, and RocksDB has a write at once.
class OrderedDiskThreadsTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  static constexpr std::uint64_t kGroups = 75;
  static constexpr std::uint64_t kKeys = 40;

  OrderedDiskThreadsTest() {
    StoreOptions options = LoggedIn(temp_ / "store", kMinMemorySize);
    options.commit_log_bytes = GetParam();
    options.ordered_index = true;
    options.grace = std::chrono::milliseconds(kMinGraceMs);
    store_ = *ServerStore::Open(options);
  }

  static std::string GroupOf(std::uint64_t group) { return absl::StrCat("group ", 100 + group, " "); }
  /// Returns the number before '.', and the rest behind it.
  static std::pair<std::uint64_t, std::string> PartsOf(std::string_view value) {
    const std::size_t point = value.find('.');
    return {std::stoull(std::string(value.substr(0, point))), std::string(value.substr(point + 1))};
  }

  /// Writes the next batch. Deletes the key if `size` is 0.
  void WriteKey(std::uint64_t group, std::uint64_t key, std::size_t size) {
    const std::string number = std::to_string(++batches_);
    const std::string name = absl::StrCat(GroupOf(group), "key ", 10 + key);
    WriteBatch batch;
    if (size == 0) {
      batch.Delete(name);
    } else {
      batch.Put(name, absl::StrCat(number, ".", std::string(size, 'v')));
    }
    const std::string last_write = absl::StrCat(number, ".", size == 0 ? "" : name);
    batch.Put(GroupOf(group) + "first", last_write);
    batch.Put(GroupOf(group) + "last", last_write);
    const absl::Status status = store_->Apply(batch);
    ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }

  /// Scans a group. Returns whether no writer overtook the scan.
  bool ScanGroup(std::uint64_t group, bool reverse) {
    scanned_ = group;
    const auto scan = store_->Scan({.prefix = GroupOf(group), .reverse = reverse});
    if (!scan.ok()) {
      ADD_FAILURE() << scan.status();
      return false;
    }
    std::map<std::string, std::pair<std::uint64_t, std::string>> shown;
    while ((*scan)->Next()) shown[std::string((*scan)->key())] = PartsOf((*scan)->value());
    if (absl::IsAborted((*scan)->status())) return false;
    EXPECT_TRUE((*scan)->status().ok()) << (*scan)->status();
    const auto first = shown.find(GroupOf(group) + "first");
    const auto last = shown.find(GroupOf(group) + "last");
    if (first == shown.end() || last == shown.end()) {
      ADD_FAILURE() << "the first or the last key of group " << group << " is not shown";
      return false;
    }
    EXPECT_EQ(first->second, last->second);
    const auto [number, name] = first->second;
    if (!name.empty()) {
      const auto written = shown.find(name);
      EXPECT_TRUE(written != shown.end() && written->second.first == number)
          << name << " in batch " << number;
    }
    for (const auto& [key, parts] : shown) EXPECT_LE(parts.first, number) << key;
    return true;
  }

  const TempDir temp_;
  std::unique_ptr<ServerStore> store_;
  std::uint64_t batches_ = 0;
  std::atomic<std::uint64_t> scanned_ = 0;  // the group of the last scan
};

INSTANTIATE_TEST_SUITE_P(Logs, OrderedDiskThreadsTest, testing::Values(kSomeCommitLog, 0),
                         [](const auto& test) { return test.param == 0 ? "RocksdbLog" : "CommitLog"; });

TEST_P(OrderedDiskThreadsTest, ScansShowOneMomentOfAllKeys) {
  for (std::uint64_t i = 0; i < kGroups * kKeys; ++i) WriteKey(i % kGroups, i / kGroups, 8000);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    std::mt19937_64 random(3);
    while (!stop.load()) {
      const std::size_t size = random() % 10 == 0 ? 0 : 1 + random() % 4000;
      // Every other one to the group that is being scanned, which is mostly cold when its scan begins.
      WriteKey(random() % 2 == 0 ? scanned_.load() : random() % kGroups, random() % kKeys, size);
    }
  });
  std::mt19937_64 random(4);
  int whole = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(GetParam() == 0 ? 4 : 2);
  const auto is_enough = [&] {
    return std::chrono::steady_clock::now() >= until && whole > 20 && store_->Read(Metric::kEvictions) > 100;
  };
  for (int round = 0; !is_enough() && !HasFailure(); ++round) {
    whole += ScanGroup(random() % kGroups, round % 2 == 0) ? 1 : 0;
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace remora
