// A store with a commit log, while the log takes writes and RocksDB takes none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "file_size_limit.h"
#include "small_disk.h"
#include "store/durable/tier_log/tier_log.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/random_bytes.h"

namespace remora {
namespace {

using testing::HasSubstr;

// C6 of store/durable/tier_log/tier_log.h: no record leaves memory before RocksDB has it. So once memory is
// full, a write is rejected, and says why. It neither waits nor is put off without end.
TEST(LogRejectionTest, FullMemoryThatMayForgetNothing) {
  constexpr std::size_t kMemory = std::size_t{16} << 20;
  const TempDir temp;
  StoreOptions options = LoggedIn(temp / "store", kMemory);
  options.commit_log_bytes = 4 * kMemory;  // in files of 4 MiB
  options.write_buffer_bytes = std::size_t{8} << 20;
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto value_of = [](int put) { return RandomBytes(4000, static_cast<std::uint64_t>(put)); };
  int puts = 0;
  const auto put = [&] {
    std::array<Write, 1> write;
    const std::string key = "key" + std::to_string(puts);
    const std::string value = value_of(puts);
    write[0].key = key;
    write[0].value = value;
    int tries = 0;
    do {
      if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      (*store)->Submit(write);
    } while (absl::IsAborted(write[0].status) && ++tries < 20'000);
    if (write[0].status.ok()) ++puts;
    return write[0].status;
  };

  {
    const FileSizeLimit limit(rlim_t{6} << 20);  // less than a table of one flush
    absl::Status status;
    while (status.ok() && puts < 10'000) status = put();
    EXPECT_GT(puts, 2000);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the memory is full, and records cannot leave it"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit"));
    EXPECT_EQ((*store)->Count(RangeOptions{}).value(), static_cast<std::uint64_t>(puts));
  }

  absl::Status status;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const int before = puts;
  while (puts < before + 3000 && std::chrono::steady_clock::now() < give_up) {
    status = put();
    if (!status.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(status.ok()) << status;
  std::string read;
  for (int i = 0; i < puts; ++i) {
    ASSERT_TRUE((*store)->Get("key" + std::to_string(i), &read).ok()) << i;
    ASSERT_TRUE(read == value_of(i)) << i;
  }
}

// T1 of store/durable/tier_log/tier_log.h.
TEST(LogRejectionTest, AGroupLargerThanAFileOnAFullDisk) {
  const TempDir temp;
  SmallDisk disk;
  const std::string why = disk.Mount(temp.path(), "size=64m");
  if (!why.empty()) GTEST_SKIP() << why;
  StoreOptions options = LoggedIn(temp / "store");
  options.commit_log_bytes = kMinTierLogBytes;
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Put("large", "before").ok());
  const std::string large = RandomBytes(std::size_t{2} << 20, 1);
  disk.TakeSpace(large.size());
  absl::Status status = (*store)->Put("large", large);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no space left"));
  EXPECT_EQ(*(*store)->Get("large"), "before");
  EXPECT_TRUE((*store)->Put("small", "1").ok()) << "the log has space for it";
  {
    std::filesystem::remove(temp / "ballast");
    const FileSizeLimit limit(large.size());
    status = (*store)->Put("large", large);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit"));
  }
  EXPECT_EQ(*(*store)->Get("large"), "before");
  status = (*store)->Put("large", large);
  ASSERT_TRUE(status.ok()) << status;
  store->reset();
  store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE(*(*store)->Get("large") == large);
  EXPECT_EQ(*(*store)->Get("small"), "1");
}

// RocksDB has such a group before its table is on the disk. If the table cannot be written, the disk may have
// the group or not, so nobody sees it. A lone put of a small value takes the fast path, one of a large value
// does not.
class LogRejectionOfTables : public testing::TestWithParam<std::size_t> {};

TEST_P(LogRejectionOfTables, ShowNoScanTheGroupThatFailed) {
  const TempDir temp;
  StoreOptions options = LoggedIn(temp / "store");
  options.commit_log_bytes = kMinTierLogBytes;
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Put("small", "1").ok());
  // RocksDB cannot make a file where a folder is.
  for (int i = 1; i < 200; ++i) {
    const std::string number = std::to_string(i);
    const std::string table = temp / ("store/" + std::string(6 - number.size(), '0') + number + ".sst");
    if (!std::filesystem::exists(table)) std::filesystem::create_directory(table);
  }
  const absl::Status status = (*store)->Put("key", RandomBytes(GetParam(), 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  const absl::Status next = (*store)->Put("next", "2");
  EXPECT_THAT(std::string(next.message()), HasSubstr("until it is opened again")) << next;
  EXPECT_EQ((*store)->Get("key").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*(*store)->Get("small"), "1");
  EXPECT_EQ((*store)->Scan({}, 0, false).status().code(), absl::StatusCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(OfBytes, LogRejectionOfTables,
                         testing::Values(std::size_t{200} << 10, std::size_t{2} << 20));

}  // namespace
}  // namespace remora
