// Batches inside groups: all writes of a batch apply, or none, whatever stands around it in the group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Write Put(std::string_view key, std::string_view value, Condition condition = {}) {
  Write write;
  write.key = key;
  write.value = value;
  write.condition = condition;
  return write;
}

Write Delete(std::string_view key) {
  Write write;
  write.kind = Write::Kind::kDelete;
  write.key = key;
  return write;
}

Write Check(std::string_view key, Condition condition) {
  Write write = Put(key, "", condition);
  write.kind = Write::Kind::kCheck;
  return write;
}

class BatchTest : public testing::TestWithParam<Durability> {
 protected:
  TempDir temp_;
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_ = Open();

  std::unique_ptr<ServerStore> Open() {
    StoreOptions options;
    if (GetParam() == Durability::kLogged) options = LoggedIn(temp_ / "store");
    options.memory_size = kMinMemorySize;
    options.eviction = Eviction::kNone;
    options.clock = &clock_;
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  static std::vector<Write> Batch(std::vector<Write> writes) {
    for (std::size_t i = 0; i + 1 < writes.size(); ++i) writes[i].continues_batch = true;
    return writes;
  }
  std::vector<absl::StatusCode> Commit(const std::vector<std::vector<Write>>& parts) {
    writes_.clear();
    for (const std::vector<Write>& part : parts) writes_.insert(writes_.end(), part.begin(), part.end());
    store_->Commit(writes_);
    std::vector<absl::StatusCode> codes;
    for (const Write& write : writes_) codes.push_back(write.status.code());
    return codes;
  }
  std::string Get(std::string_view key) const {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }

  std::vector<Write> writes_;
  static constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
  static constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
  static constexpr absl::StatusCode kAlreadyExists = absl::StatusCode::kAlreadyExists;
  static constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
};
INSTANTIATE_TEST_SUITE_P(With, BatchTest, testing::Values(Durability::kMemory, Durability::kLogged));

TEST_P(BatchTest, IsDoneInOrderWithVersionsInARow) {
  EXPECT_THAT(Commit({{Put("x", "0")},
                      Batch({Put("a", "1"), Put("b", "2"), Put("a", "3", Condition::Present()), Delete("b")}),
                      {Put("y", "4")}}),
              ElementsAre(kOk, kOk, kOk, kOk, kOk, kOk));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(writes_[i].version, writes_[0].version + i);
  EXPECT_EQ(Get("a"), "3");
  EXPECT_EQ(Get("b"), "NOT_FOUND");
  // In memory, the first put takes the fast path, and the rest is a second group.
  EXPECT_EQ(store_->Read(Metric::kCommitGroups), GetParam() == Durability::kLogged ? 1u : 2u);
}

TEST_P(BatchTest, AFailedBatchLeavesNothing) {
  ASSERT_THAT(Commit({{Put("a", "old")}, {Put("b", "old")}}), ElementsAre(kOk, kOk));
  const std::uint64_t used = store_->Read(Metric::kLogBytesUsed);
  const std::string large(50'000, 'v');
  EXPECT_THAT(Commit({Batch({Put("a", large), Put("new", large), Delete("b"), Delete("missing")})}),
              ElementsAre(kNotFound, kNotFound, kNotFound, kNotFound));
  EXPECT_THAT(std::string(writes_[0].status.message()), HasSubstr("write 4 of the batch"));
  EXPECT_EQ(writes_[0].version, 0u);
  EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), used);
  EXPECT_EQ(store_->Read(Metric::kKeys), 2u);
  EXPECT_EQ(Get("a"), "old");
  EXPECT_EQ(Get("b"), "old");
  EXPECT_EQ(Get("new"), "NOT_FOUND");
  EXPECT_THAT(Commit({Batch({Put("a", "1"), Put("", "2")})}),
              ElementsAre(kInvalidArgument, kInvalidArgument));
  EXPECT_EQ(Get("a"), "old");
}

TEST_P(BatchTest, AChecksKeyIsDecidedAfterAllWritesBefore) {
  const std::vector<Write> if_absent = Batch({Put("b", "1"), Check("a", Condition::Absent())});
  // The put of the same group comes before the second batch, and the delete before the third one.
  EXPECT_THAT(Commit({if_absent, {Put("a", "0")}, if_absent, {Delete("a")}, if_absent}),
              ElementsAre(kOk, kOk, kOk, kAlreadyExists, kAlreadyExists, kOk, kOk, kOk));
  EXPECT_EQ(writes_[0].version + 1, writes_[2].version) << "a check gets no version";
  EXPECT_EQ(writes_[2].version + 2, writes_[6].version);
  EXPECT_THAT(std::string(writes_[3].status.message()), HasSubstr("write 2 of the batch"));
  // The batch's own writes count, too. Those of a batch that was taken back do not.
  EXPECT_THAT(
      Commit({Batch({Put("c", "1"), Check("c", Condition::Absent())}),
              Batch({Put("d", "1"), Check("c", Condition::Absent()), Check("d", Condition::Present())})}),
      ElementsAre(kAlreadyExists, kAlreadyExists, kOk, kOk, kOk));
  EXPECT_EQ(Get("c"), "NOT_FOUND");
}

TEST_P(BatchTest, MayConsistOfChecks) {
  ASSERT_THAT(Commit({{Put("a", "1")}}), ElementsAre(kOk));
  const std::uint64_t version = writes_[0].version;
  const std::uint64_t used = store_->Read(Metric::kLogBytesUsed);
  EXPECT_THAT(Commit({Batch({Check("a", Condition::Version(version)), Check("none", Condition::Absent())})}),
              ElementsAre(kOk, kOk));
  EXPECT_THAT(Commit({{Check("none", Condition::Present())}, {Check("a", Condition::Present())}}),
              ElementsAre(kNotFound, kOk));
  EXPECT_THAT(Commit({Batch({Check("a", Condition::Present()), Put("b", "")})}),
              ElementsAre(kInvalidArgument, kInvalidArgument));
  EXPECT_THAT(Commit({Batch({Check("", Condition::Present()), Check("a", {})})}),
              ElementsAre(kInvalidArgument, kInvalidArgument));
  EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), used);
  EXPECT_EQ(store_->Read(Metric::kKeys), 1u);
  ASSERT_THAT(Commit({{Put("a", "2")}}), ElementsAre(kOk));
  EXPECT_EQ(writes_[0].version, version + 1);
}

TEST_P(BatchTest, TheErrorNamesTheWriteOfTheBatch) {
  WriteBatch batch;
  batch.Delete("missing");
  const absl::Status status = store_->Apply(batch);
  EXPECT_EQ(status.code(), kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("write 1 of the batch"));
}

// Later writes of the group are decided as if the failed batch had not been there.
TEST_P(BatchTest, AFailedBatchDoesNotAffectItsGroup) {
  ASSERT_THAT(Commit({{Put("gone", "old")}}), ElementsAre(kOk));
  EXPECT_THAT(Commit({{Put("a", "1")},
                      Batch({Put("a", "2"), Put("a", "3"), Put("b", "4"), Delete("gone"), Delete("missing")}),
                      {Put("b", "5", Condition::Absent())},
                      {Put("gone", "6", Condition::Present())},
                      Batch({Put("c", "7"), Put("b", "8", Condition::Absent())}),
                      Batch({Put("c", "9", Condition::Absent()), Delete("gone")})}),
              ElementsAre(kOk, kNotFound, kNotFound, kNotFound, kNotFound, kNotFound, kOk, kOk,
                          kAlreadyExists, kAlreadyExists, kOk, kOk));
  EXPECT_EQ(writes_[6].version, writes_[0].version + 1);
  std::uint64_t version = 0;
  std::string value;
  ASSERT_TRUE(store_->Get("a", &value, &version).ok());
  EXPECT_EQ(value, "1");
  EXPECT_EQ(version, writes_[0].version);
  EXPECT_EQ(Get("b"), "5");
  EXPECT_EQ(Get("c"), "9");
  EXPECT_EQ(Get("gone"), "NOT_FOUND");
  EXPECT_EQ(store_->Read(Metric::kKeys), 3u);
}

TEST_P(BatchTest, AVersionOfTheWriteBeforeAFailedBatchIsStillTheKeys) {
  ASSERT_THAT(Commit({{Put("a", "1")}}), ElementsAre(kOk));
  const Condition second = Condition::Version(writes_[0].version + 1);
  EXPECT_THAT(Commit({{Put("a", "2")}, Batch({Put("a", "3"), Delete("missing")}), {Put("a", "4", second)}}),
              ElementsAre(kOk, kNotFound, kNotFound, kOk));
  EXPECT_EQ(Get("a"), "4");
}

TEST_P(BatchTest, NoGroupSplitsOne) {
  std::vector<std::string> keys;
  for (int i = 0; i < 1100; ++i) keys.push_back("key " + std::to_string(i));
  std::vector<Write> singles;
  for (std::size_t i = 0; i < 1020; ++i) singles.push_back(Put(keys[i], "single"));
  std::vector<Write> batch;
  for (std::size_t i = 1000; i < 1100; ++i) batch.push_back(Put(keys[i], "batch"));
  batch.push_back(Delete("missing"));
  Commit({singles, Batch(batch)});
  for (std::size_t i = 0; i < 1100; ++i) {
    ASSERT_EQ(writes_[i].status.code(), i < 1020 ? kOk : kNotFound);
    ASSERT_EQ(Get(keys[i]), i < 1020 ? "single" : "NOT_FOUND");
  }
  batch.pop_back();
  for (const absl::StatusCode code : Commit({singles, Batch(batch)})) ASSERT_EQ(code, kOk);
  for (std::size_t i = 1000; i < 1100; ++i) ASSERT_EQ(Get(keys[i]), "batch");
}

TEST_P(BatchTest, ABatchOutOfBoundsIsRejected) {
  std::vector<Write> many(kMaxBatchWrites + 1, Put("key", "value"));
  Commit({Batch(many)});
  for (const Write& write : writes_) ASSERT_EQ(write.status.code(), kInvalidArgument);
  many.pop_back();
  for (const absl::StatusCode code : Commit({Batch(many)})) ASSERT_EQ(code, kOk);
  const std::string half(kMaxBatchBytes / 2, 'v');
  EXPECT_THAT(Commit({Batch({Put("a", half), Put("b", half)})}),
              ElementsAre(kInvalidArgument, kInvalidArgument));
  Write touch = Put("key", "");
  touch.kind = Write::Kind::kTouch;
  EXPECT_THAT(Commit({Batch({Put("a", ""), touch})}), ElementsAre(kInvalidArgument, kInvalidArgument));
  EXPECT_EQ(store_->Read(Metric::kKeys), 1u);
}

// A full store rejects the whole batch. If memory waits for its
// grace period, the whole batch is Aborted, and succeeds later.
TEST_P(BatchTest, WantOfSpaceHitsAllOfIt) {
  const std::string value(60'000, 'v');
  const std::vector<std::string> keys = {"a", "b", "c", "d"};
  std::size_t put_off = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string number = std::to_string(round);
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(key + number + value);
    std::vector<Write> batch;
    for (std::size_t i = 0; i < keys.size(); ++i) batch.push_back(Put(keys[i], values[i]));
    for (;;) {
      const std::vector<absl::StatusCode> codes = Commit({Batch(batch)});
      for (const absl::StatusCode code : codes) ASSERT_EQ(code, codes[0]);
      if (codes[0] == kOk) break;
      ASSERT_EQ(codes[0], absl::StatusCode::kAborted);
      ++put_off;
      for (const std::string& key : keys) ASSERT_EQ(Get(key), key + std::to_string(round - 1) + value);
      clock_.Advance(std::chrono::milliseconds(50));
    }
    for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(Get(keys[i]), values[i]);
  }
  EXPECT_GT(put_off, 0u);
  int count = 0;
  for (;; ++count) {
    const std::string one = "one " + std::to_string(count);
    const std::string other = "other " + std::to_string(count);
    const std::vector<Write> batch = Batch({Put(one, value), Put(other, value)});
    absl::StatusCode code;
    while ((code = Commit({batch})[0]) == absl::StatusCode::kAborted) {
      clock_.Advance(std::chrono::milliseconds(50));
    }
    if (code == kOk) continue;
    EXPECT_EQ(code, absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(Get(one), "NOT_FOUND");
    EXPECT_EQ(Get(other), "NOT_FOUND");
    break;
  }
  EXPECT_GT(count, 10);
}

}  // namespace
}  // namespace remora
