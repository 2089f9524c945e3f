// Completion records of the writes of clients, across restarts.
#include "store/durable/completion_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/server_store.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr std::uint64_t kAnna = 0xfedcba9876543210;
constexpr std::uint64_t kBert = 7;

Write WriteOf(std::uint64_t client, std::uint64_t number, std::string_view key, std::string_view value) {
  Write write;
  write.key = key;
  write.value = value;
  write.request = {client, number};
  return write;
}

class CompletionRecordsTest : public testing::Test {
 protected:
  TempDir temp_;
  std::unique_ptr<ServerStore> store_ = Open();

  std::unique_ptr<ServerStore> Open() {
    absl::StatusOr<std::unique_ptr<ServerStore>> store =
        ServerStore::Open(LoggedIn(temp_ / "store", kMinMemorySize));
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  void Restart() {
    store_.reset();
    store_ = Open();
  }
  void Register(std::uint64_t client, std::vector<std::uint64_t> forgotten = {}) {
    const absl::Status status = store_->RegisterClient(client, forgotten);
    EXPECT_TRUE(status.ok()) << status;
  }
  Write Commit(Write write) {
    store_->Commit({&write, 1});
    return write;
  }
  /// Returns the version of each write with a completion record, by client and request ID, as of the last
  /// restart.
  std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> Completions() {
    std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> all;
    for (const ClientCompletions& client : store_->TakeCompletions()) {
      auto& writes = all[client.client];
      for (const CompletionRecord& write : client.completions) writes[write.number] = write.version;
    }
    return all;
  }
};

TEST_F(CompletionRecordsTest, AWriteThatWasDoneIsRememberedAfterARestart) {
  Register(kAnna);
  const Write first = Commit(WriteOf(kAnna, 5, "a", "1"));
  const Write last = Commit(WriteOf(kAnna, 6, "a", "2"));
  Restart();
  EXPECT_THAT(Completions(),
              ElementsAre(Pair(kAnna, ElementsAre(Pair(5u, first.version), Pair(6u, last.version)))));
  EXPECT_THAT(Completions(), IsEmpty()) << "they are taken once";
}

TEST_F(CompletionRecordsTest, TheResultIsRemembered) {
  Register(kAnna);
  const std::int64_t delta = 42;
  Write add = WriteOf(kAnna, 9, "sum", {reinterpret_cast<const char*>(&delta), sizeof(delta)});
  add.kind = Write::Kind::kIncrement;
  Commit(add);
  Write deletion = WriteOf(kAnna, 10, "sum", {});
  deletion.kind = Write::Kind::kDelete;
  EXPECT_TRUE(Commit(deletion).status.ok());
  Restart();
  const std::vector<ClientCompletions> clients = store_->TakeCompletions();
  ASSERT_EQ(clients.size(), 1u);
  ASSERT_EQ(clients[0].completions.size(), 2u);
  EXPECT_EQ(clients[0].completions[0].number, 9u);
  EXPECT_EQ(clients[0].completions[0].result, 42);
  EXPECT_GT(clients[0].since_ms, 0);
}

TEST_F(CompletionRecordsTest, AFailedWriteHasNoCompletionRecord) {
  Register(kAnna);
  Write write = WriteOf(kAnna, 1, "a", "1");
  write.condition = Condition::Present();
  EXPECT_EQ(Commit(write).status.code(), absl::StatusCode::kNotFound);
  Restart();
  EXPECT_THAT(Completions(), ElementsAre(Pair(kAnna, IsEmpty())));
}

TEST_F(CompletionRecordsTest, ABatchIsOneWrite) {
  Register(kAnna);
  std::vector<Write> batch = {WriteOf(kAnna, 3, "a", "1"), WriteOf(0, 0, "b", "2")};
  batch[0].continues_batch = true;
  store_->Commit(batch);
  ASSERT_TRUE(batch[1].status.ok()) << batch[1].status;
  std::vector<Write> rejected = {WriteOf(kAnna, 4, "c", "1"), WriteOf(0, 0, "a", "2")};
  rejected[0].continues_batch = true;
  rejected[1].condition = Condition::Absent();
  store_->Commit(rejected);
  ASSERT_EQ(rejected[0].status.code(), absl::StatusCode::kAlreadyExists);
  Restart();
  EXPECT_THAT(Completions(), ElementsAre(Pair(kAnna, ElementsAre(Pair(3u, batch[0].version)))));
}

TEST_F(CompletionRecordsTest, ALaterWriteTakesThePlaceOfOneThatIsFarBack) {
  Register(kAnna);
  Register(kBert);
  for (std::uint64_t number = 1; number <= kCompletionsPerClient + 1; ++number) {
    Commit(WriteOf(kAnna, number, "a", "1"));
  }
  Commit(WriteOf(kBert, 1, "a", "1"));
  Restart();
  auto all = Completions();
  EXPECT_EQ(all[kAnna].size(), kCompletionsPerClient);
  EXPECT_EQ(all[kAnna].begin()->first, 2u);
  EXPECT_EQ(all[kBert].size(), 1u);
}

TEST_F(CompletionRecordsTest, AForgottenClientLosesAllCompletionRecords) {
  Register(kAnna);
  for (std::uint64_t number = 1; number <= kCompletionsPerClient; ++number) {
    Commit(WriteOf(kAnna, number, "a", "1"));
  }
  Register(kBert, {kAnna});
  Commit(WriteOf(kBert, 1, "a", "1"));
  Restart();
  EXPECT_THAT(Completions(), ElementsAre(Pair(kBert, testing::SizeIs(1))));
  // A later write of an unknown client does not bring the client back.
  Commit(WriteOf(kAnna, 17, "a", "1"));
  Restart();
  EXPECT_THAT(Completions(), ElementsAre(Pair(kBert, testing::SizeIs(1))));
}

TEST_F(CompletionRecordsTest, WritesOfNobodyLeaveNothing) {
  Register(kAnna);
  EXPECT_TRUE(store_->Put("a", "1").ok());
  Restart();
  EXPECT_THAT(Completions(), ElementsAre(Pair(kAnna, IsEmpty())));
}

TEST(CompletionRecordsInMemory, IsNothing) {
  auto store = ServerStore::Open({.memory_size = kMinMemorySize});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->RegisterClient(kAnna, {}).ok());
  Write write = WriteOf(kAnna, 1, "a", "1");
  (*store)->Commit({&write, 1});
  EXPECT_TRUE(write.status.ok());
  EXPECT_THAT((*store)->TakeCompletions(), IsEmpty());
}

}  // namespace
}  // namespace remora
