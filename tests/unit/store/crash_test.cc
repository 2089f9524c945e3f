// A process is killed while it writes. All writes that it acknowledged are there afterwards.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "crash_values.h"
#include "store/server_store.h"
#include "test_files.h"
#include "test_process.h"

namespace remora {
namespace {

// The parameter says whether the store has a commit log. The log
// is so small that it is applied and recycled during the test.
class CrashTest : public testing::TestWithParam<bool> {
 protected:
  const std::uint64_t log_bytes_ = GetParam() ? std::uint64_t{1} << 20 : 0;

  StoreOptions OptionsIn(const std::string& dir, std::size_t memory_size) const {
    StoreOptions options = LoggedIn(dir, memory_size);
    options.commit_log_bytes = log_bytes_;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Both, CrashTest, testing::Bool(),
                         [](const auto& suite) { return suite.param ? "CommitLog" : "Logged"; });

TEST_P(CrashTest, AcknowledgedWritesSurviveSigkill) {
  TempDir temp;
  const std::string dir = temp / "store";
  std::mt19937_64 random(std::random_device{}());
  std::uint64_t next = 0;  // every write before this one was acknowledged
  std::uint64_t last_version = 0;
  for (int round = 0; round < 8; ++round) {
    {
      TestProcess writer({"write", dir, std::to_string(next), std::to_string(log_bytes_)});
      // Kills the process after some acknowledgements, while the next writes are in flight.
      const std::uint64_t kill_after = 1 + random() % 1500;
      std::uint64_t number = 0;
      for (std::uint64_t seen = 0; seen < kill_after; ++seen) ASSERT_TRUE(writer.Read(&number));
      writer.Kill();
      while (writer.Read(&number)) {
      }
      EXPECT_EQ(writer.Wait(), -9);
      next = number + 1;
    }
    absl::StatusOr<std::unique_ptr<ServerStore>> store =
        ServerStore::Open(OptionsIn(dir, std::size_t{256} << 20));
    ASSERT_TRUE(store.ok()) << store.status();
    std::string value;
    for (std::uint64_t i = 0; i < next; ++i) {
      const absl::Status status = (*store)->Get(CrashKey(i), &value);
      if (CrashKeyIsDeleted(i)) {
        ASSERT_EQ(status.code(), absl::StatusCode::kNotFound) << "round " << round << " key " << i;
      } else {
        ASSERT_TRUE(status.ok()) << "round " << round << " key " << i << " " << status;
        ASSERT_EQ(value, CrashValue(i));
      }
    }
    // The write that was in flight may be there or not. No later write is there.
    EXPECT_EQ((*store)->Get(CrashKey(next + 1), &value).code(), absl::StatusCode::kNotFound);
    EXPECT_GT((*store)->Read(Metric::kLastVersion), last_version);
    last_version = (*store)->Read(Metric::kLastVersion);
  }
}

TEST_P(CrashTest, OfABatchAllSurvivesOrNothing) {
  TempDir temp;
  const std::string dir = temp / "store";
  std::mt19937_64 random(std::random_device{}());
  std::uint64_t next = 1;
  for (int round = 0; round < 8; ++round) {
    std::uint64_t acknowledged = 0;
    {
      TestProcess writer({"batch", dir, std::to_string(next), std::to_string(log_bytes_)});
      const std::uint64_t kill_after = 1 + random() % 500;
      for (std::uint64_t seen = 0; seen < kill_after; ++seen) ASSERT_TRUE(writer.Read(&acknowledged));
      writer.Kill();
      while (writer.Read(&acknowledged)) {
      }
      EXPECT_EQ(writer.Wait(), -9);
    }
    absl::StatusOr<std::unique_ptr<ServerStore>> store =
        ServerStore::Open(OptionsIn(dir, std::size_t{64} << 20));
    ASSERT_TRUE(store.ok()) << store.status();
    std::string first;
    ASSERT_TRUE((*store)->Get(CrashKey(0), &first).ok());
    // The batch that was in flight may be there, too.
    const bool is_last = first == CrashValue(acknowledged);
    ASSERT_TRUE(is_last || first == CrashValue(acknowledged + 1)) << "round " << round;
    for (std::uint64_t key = 1; key < kCrashBatchKeys; ++key) {
      std::string value;
      ASSERT_TRUE((*store)->Get(CrashKey(key), &value).ok());
      ASSERT_EQ(value, first) << "round " << round << " key " << key;
    }
    next = acknowledged + 2;
  }
}

}  // namespace
}  // namespace remora
