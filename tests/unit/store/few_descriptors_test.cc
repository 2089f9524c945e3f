// A durable store in a process that has no file descriptors left.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/base/check.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/sanitizers.h"

namespace remora {
namespace {

using testing::HasSubstr;

class FewDescriptorsTest : public testing::Test {
 protected:
  void SetUp() override {
    REMORA_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);  // TearDown needs it in any case
    if (kUndefinedBehaviorSanitizer) GTEST_SKIP() << "UBSan itself needs descriptors";
  }
  void TearDown() override { Feed(); }

  void Open() {
    StoreOptions options = LoggedIn(temp_ / "store");
    options.memory_size = std::size_t{512} << 20;
    auto store = ServerStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  /// Takes all descriptors. The store can open a file only after it has closed one.
  void Starve() {
    rlimit few = before_;
    few.rlim_cur = 256;
    REMORA_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(fd);
    REMORA_CHECK(errno == EMFILE);
  }
  /// Forbids new descriptors, even after the store has closed one.
  void StarveForGood() {
    rlimit none = before_;
    none.rlim_cur = 0;
    REMORA_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  void Feed() {
    REMORA_CHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0);
    for (const int fd : taken_) close(fd);
    taken_.clear();
  }
  /// Puts until the store rejects a write. Returns its error.
  absl::Status PutUntilRejected() {
    const std::string value(std::size_t{4} << 20, 'v');
    for (; puts_ < 100; ++puts_) {
      if (absl::Status status = store_->Put("key" + std::to_string(puts_), value); !status.ok())
        return status;
    }
    return absl::OkStatus();
  }
  /// Puts the key "after", as soon as the store takes writes again.
  void PutOnceTaken() {
    absl::Status status;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (status = store_->Put("after", "value"),
           !status.ok() && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(status.ok()) << status;
  }
  void ExpectAllPuts() {
    std::string value;
    for (int i = 0; i < puts_; ++i) ASSERT_TRUE(store_->Get("key" + std::to_string(i), &value).ok()) << i;
  }
  /// Puts until the store rejects a write, and gives the descriptors back: writes go on, and none is missing.
  void ExpectWritesGoOnOnceFed() {
    const absl::Status rejected = PutUntilRejected();
    EXPECT_EQ(rejected.code(), absl::StatusCode::kUnavailable) << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("short of descriptors"));
    ASSERT_THAT(std::string(rejected.message()), Not(HasSubstr("opened again")));
    ExpectAllPuts();
    Feed();
    ASSERT_NO_FATAL_FAILURE(PutOnceTaken());
    store_.reset();
    ASSERT_NO_FATAL_FAILURE(Open());
    ExpectAllPuts();
    std::string value;
    EXPECT_TRUE(store_->Get("after", &value).ok());
  }

  TempDir temp_;
  std::unique_ptr<ServerStore> store_;
  int puts_ = 0;

 private:
  rlimit before_ = {};
  std::vector<int> taken_;
};

TEST_F(FewDescriptorsTest, WritesGoOnOnceThereAreSomeAgain) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Starve();
  ExpectWritesGoOnOnceFed();
}

TEST_F(FewDescriptorsTest, AStoreThatHasNoneEnds) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Starve();
  EXPECT_FALSE(PutUntilRejected().ok());
  store_.reset();
  Feed();
  ASSERT_NO_FATAL_FAILURE(Open());
  ExpectAllPuts();
}

// No descriptor comes back by itself here, so RocksDB can make neither a table nor a log.
TEST_F(FewDescriptorsTest, WritesGoOnThoughNoLogCouldBegin) {
  ASSERT_NO_FATAL_FAILURE(Open());
  StarveForGood();
  ExpectWritesGoOnOnceFed();
}

TEST_F(FewDescriptorsTest, AStoreThatCouldNotBeginALogEnds) {
  ASSERT_NO_FATAL_FAILURE(Open());
  StarveForGood();
  EXPECT_FALSE(PutUntilRejected().ok());
  Feed();
  store_.reset();
  ASSERT_NO_FATAL_FAILURE(Open());
  ExpectAllPuts();
  EXPECT_TRUE(store_->Put("after", "value").ok());
}

// The watch keeps its position. The log has the change, but cannot be opened right now.
TEST_F(FewDescriptorsTest, AWatchGoesOnOnceThereAreSomeAgain) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto watch = *store_->Watch();
  ASSERT_TRUE(store_->Put("key", "value").ok());
  StarveForGood();
  const auto rejected = watch->Next(std::chrono::seconds(60));
  EXPECT_EQ(rejected.status().code(), absl::StatusCode::kUnavailable) << rejected.status();
  Feed();
  const absl::StatusOr<bool> came = watch->Next(std::chrono::seconds(60));
  ASSERT_TRUE(came.ok() && *came) << came.status();
  EXPECT_EQ(watch->key(), "key");
}

}  // namespace
}  // namespace remora
