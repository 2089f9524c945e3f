// A commit log in a process that has no file descriptors left (C9 of
// store/durable/commit_log/commit_log.h): writes are rejected, and accepted again without a restart.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "commit_log_fixture.h"
#include "store/base/check.h"
#include "store/base/shortage.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/sanitizers.h"

namespace remora {
namespace {

using testing::HasSubstr;

/// Allows no new descriptors as long as it exists.
class NoNewDescriptors {
 public:
  NoNewDescriptors() {
    REMORA_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit none{0, before_.rlim_max};
    REMORA_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoNewDescriptors() { REMORA_CHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0); }
  NoNewDescriptors(const NoNewDescriptors&) = delete;
  NoNewDescriptors& operator=(const NoNewDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// Repeats `write` until it succeeds, or a minute has passed.
template <typename Write>
absl::Status WriteUntilTaken(Write write) {
  absl::Status status;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (status = write(), !status.ok() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

class CommitLogShortageTest : public CommitLogFixture {
 protected:
  void SetUp() override {
    if (kUndefinedBehaviorSanitizer) GTEST_SKIP() << "UBSan itself needs descriptors";
  }
};
REMORA_WITH_BOTH_LOG_WRITERS(CommitLogShortageTest);

TEST_P(CommitLogShortageTest, WithoutDescriptorsItRejectsAndLaterGoesOn) {  // C9
  const auto log = Open();
  ASSERT_TRUE(log);
  absl::Status status;
  Lsn end;
  {
    const NoNewDescriptors shortage;
    while (status.ok() && version_ < 10'000) status = TryAppend(*log, 4000).status();
    end = log->appended();
    EXPECT_FALSE(TryAppend(*log, 4000).ok());
    EXPECT_EQ(log->appended(), end);
    EXPECT_TRUE(log->Sync().ok()) << "what was taken can be synced";
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(IsShortage(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Too many open files"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("open the store again")));
  status = WriteUntilTaken([&] { return TryAppend(*log, 4000).status(); });
  EXPECT_TRUE(status.ok()) << status;
  Fill(*log, 2);
  EXPECT_EQ(Versions(temp_.path(), {}, log->appended()), UpTo(version_));
}

// Recycled files, too, need descriptors under their new names.
TEST_P(CommitLogShortageTest, WithoutDescriptorsItRecyclesLater) {  // C9
  const auto log = Open();
  ASSERT_TRUE(log);
  const Lsn first = Fill(*log, 4);
  absl::Status status;
  {
    const NoNewDescriptors shortage;
    log->Recycle(first);
    while (status.ok() && version_ < 10'000) status = TryAppend(*log, 4000).status();
  }
  EXPECT_TRUE(IsShortage(status)) << status;
  status = WriteUntilTaken([&] { return TryAppend(*log, 4000).status(); });
  EXPECT_TRUE(status.ok()) << status;
  Fill(*log, 3);
  std::vector<std::uint64_t> expected = UpTo(version_);
  const std::vector<std::uint64_t> versions = Versions(temp_.path(), first, log->appended());
  ASSERT_LE(versions.size(), expected.size());
  expected.erase(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(versions.size()));
  EXPECT_EQ(versions, expected) << "no gap";
  EXPECT_LE(log->bytes(), Options().max_bytes);
}

TEST(LoggedShortageTest, AStoreTakesWritesAgainWithoutARestart) {  // C9, C10
  if (kUndefinedBehaviorSanitizer) GTEST_SKIP() << "UBSan itself needs descriptors";
  const TempDir temp;
  StoreOptions options = LoggedIn(temp / "store");
  options.memory_size = std::size_t{64} << 20;
  options.commit_log_bytes = std::uint64_t{16} << 20;
  auto opened = ServerStore::Open(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  std::unique_ptr<ServerStore> store = *std::move(opened);
  const std::string value(100'000, 'v');
  int puts = 0;
  const auto put = [&] {
    const absl::Status status = store->Put("key" + std::to_string(puts), value + std::to_string(puts));
    if (status.ok()) ++puts;
    return status;
  };
  absl::Status status;
  {
    const NoNewDescriptors shortage;
    while (status.ok() && puts < 400) status = put();
    EXPECT_TRUE(store->Get("key0").ok());
    EXPECT_EQ(*store->Count(), static_cast<std::uint64_t>(puts));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("short of descriptors"));
  status = WriteUntilTaken(put);
  ASSERT_TRUE(status.ok()) << status;
  // So many that RocksDB has to flush, and the log has to recycle.
  for (const int more = puts + 200; puts < more;) {
    status = WriteUntilTaken(put);
    ASSERT_TRUE(status.ok()) << status;
  }
  store.reset();
  opened = ServerStore::Open(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  store = *std::move(opened);
  for (int i = 0; i < puts; ++i) {
    const absl::StatusOr<std::string> got = store->Get("key" + std::to_string(i));
    ASSERT_TRUE(got.ok()) << i << ": " << got.status();
    ASSERT_TRUE(*got == value + std::to_string(i)) << i;
  }
}

}  // namespace
}  // namespace remora
