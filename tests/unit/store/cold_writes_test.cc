// Writes of cold keys for a caller that does not wait for the disk: D7 of store/read/cold_read.h, and D8 of
// server/request/parked_writes.h within a group.
#include "store/write/cold_writes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cold_fixture.h"
#include "patient_writes.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"
#include "twin_keys.h"

namespace remora {
namespace {

using std::chrono::hours;

class ColdWritesTest : public ColdFixture {
 protected:
  using Kind = Write::Kind;

  /// Returns a write that does not wait for the disk.
  static Write ColdWrite(Kind kind, std::string_view key, std::string_view value = {},
                         const void* sender = nullptr) {
    Write write = WriteOf(kind, key, value);
    write.may_read = false;
    write.sender = sender;
    return write;
  }

  /// Submits writes, and does so again while there is no space for the first of them.
  void SubmitWithSpace(std::span<Write> writes) {
    for (;;) {
      for (Write& write : writes) write.needs_read = false;
      store_->Submit(writes);
      const bool needs_read = std::ranges::any_of(writes, &Write::needs_read);
      if (!absl::IsAborted(writes.front().status) || needs_read) return;
      clock_.Advance(kPatience);
    }
  }
  /// Submits a write that needs a read, and begins that.
  std::unique_ptr<ColdRead> Begin(Write& write) {
    SubmitWithSpace(std::span(&write, 1));
    EXPECT_TRUE(absl::IsAborted(write.status)) << write.status;
    EXPECT_TRUE(write.needs_read);
    std::vector<std::unique_ptr<ColdRead>> reads;
    store_->BeginReads(std::span(&write, 1), &reads);
    EXPECT_TRUE(reads.size() == 1 && reads.front() != nullptr);
    return std::move(reads.front());
  }
  /// Submits a write with the result of its read. Returns the name of its status, or "again".
  std::string Finish(Write& write, const std::unique_ptr<ColdRead>& read) {
    write.read = read.get();
    SubmitWithSpace(std::span(&write, 1));
    return write.needs_read ? "again" : absl::StatusCodeToString(write.status.code());
  }
  std::string ReadAndFinish(Write& write) {
    const std::unique_ptr<ColdRead> read = Begin(write);
    store_->ReadCold(read.get());
    return Finish(write, read);
  }
};

TEST_F(ColdWritesTest, AreDoneWithTheRecordThatWasRead) {
  for (const std::string key : {"put", "delete", "touch", "increment", "append"}) {
    ASSERT_NO_FATAL_FAILURE(Put(key, "10"));
  }
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  const std::uint64_t fetches = store_->Read(Metric::kFetches);
  Write put = ColdWrite(Kind::kPut, "put", "new");
  EXPECT_EQ(ReadAndFinish(put), "OK");
  Write erase = ColdWrite(Kind::kDelete, "delete");
  EXPECT_EQ(ReadAndFinish(erase), "OK");
  Write touch = ColdWrite(Kind::kTouch, "touch");
  touch.ttl = hours(1);
  EXPECT_EQ(ReadAndFinish(touch), "OK");
  const std::int64_t five = 5;
  Write increment =
      ColdWrite(Kind::kIncrement, "increment", {reinterpret_cast<const char*>(&five), sizeof(five)});
  EXPECT_EQ(ReadAndFinish(increment), "OK");
  EXPECT_EQ(increment.result, 15);
  Write append = ColdWrite(Kind::kAppend, "append", "1");
  EXPECT_EQ(ReadAndFinish(append), "OK");
  EXPECT_EQ(append.result, 3);
  EXPECT_EQ(store_->Read(Metric::kFetches), fetches) << "no record is promoted only to be replaced";
  EXPECT_EQ(Get("put"), "new");
  EXPECT_EQ(Get("delete"), "NOT_FOUND");
  EXPECT_EQ(Get("touch"), "10");
  EXPECT_EQ(Get("increment"), "15");
  EXPECT_EQ(Get("append"), "101");
}

TEST_F(ColdWritesTest, FindTheVersionThatTheirConditionNames) {
  Write first = WriteOf(Kind::kPut, "key", "old");
  SubmitWithSpace(std::span(&first, 1));
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  Write other = ColdWrite(Kind::kPut, "key", "other");
  other.condition = Condition::Version(first.version + 1);
  EXPECT_EQ(ReadAndFinish(other), "FAILED_PRECONDITION");
  Write same = ColdWrite(Kind::kPut, "key", "same");
  same.condition = Condition::Version(first.version);
  EXPECT_EQ(ReadAndFinish(same), "OK");
  EXPECT_EQ(Get("key"), "same");
}

TEST_F(ColdWritesTest, OfATwinFindThatTheKeyDoesNotExist) {
  ASSERT_EQ(EncodeColdSlot(HashKey(kFirstTwin)), EncodeColdSlot(HashKey(kSecondTwin)));
  ASSERT_NO_FATAL_FAILURE(PutCold(kFirstTwin, "first"));
  Write erase = ColdWrite(Kind::kDelete, kSecondTwin);
  EXPECT_EQ(ReadAndFinish(erase), "NOT_FOUND");
  Write put = ColdWrite(Kind::kPut, kSecondTwin, "second");
  EXPECT_EQ(ReadAndFinish(put), "OK");
  EXPECT_EQ(Get(kFirstTwin), "first");
  EXPECT_EQ(Get(kSecondTwin), "second");
}

TEST_F(ColdWritesTest, OfAKeyThatIsNotLoadedAreDone) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "value"));
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
  Write append = ColdWrite(Kind::kAppend, "key", "s");
  EXPECT_EQ(ReadAndFinish(append), "OK");
  EXPECT_EQ(Get("key"), "values");
}

TEST_F(ColdWritesTest, FailAsTheirReads) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "value"));
  Write put = ColdWrite(Kind::kPut, "key", "new");
  const std::unique_ptr<ColdRead> read = Begin(put);
  read->status = absl::DataLossError("the table is damaged");
  EXPECT_EQ(Finish(put, read), "DATA_LOSS");
  EXPECT_EQ(Get("key"), "value");
}

// D7.
TEST_F(ColdWritesTest, SeeAWriteThatWasDoneMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "old"));
  Write append = ColdWrite(Kind::kAppend, "key", "er");
  const std::unique_ptr<ColdRead> read = Begin(append);
  store_->ReadCold(read.get());
  ASSERT_NO_FATAL_FAILURE(Put("key", "new"));
  EXPECT_EQ(Finish(append, read), "OK");
  EXPECT_EQ(Get("key"), "newer");
}

// D7 and D3.
TEST_F(ColdWritesTest, NeedAnotherReadIfTheKeyWasWrittenAndLeftMemory) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "old"));
  Write append = ColdWrite(Kind::kAppend, "key", "er");
  const std::unique_ptr<ColdRead> read = Begin(append);
  store_->ReadCold(read.get());
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "new"));
  ASSERT_EQ(Finish(append, read), "again");
  EXPECT_EQ(ReadAndFinish(append), "OK");
  EXPECT_EQ(Get("key"), "newer");
}

// D7 and D1: the record that was read is older than the pending write.
TEST_F(ColdWritesTest, ComeBehindAPendingWriteOfTheKey) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "old"));
  Write append = ColdWrite(Kind::kAppend, "key", "er");
  const std::unique_ptr<ColdRead> read = Begin(append);
  store_->ReadCold(read.get());
  Write pending = WriteOf(Kind::kPut, "key", "new");
  pending.durability = Durability::kSynced;
  SubmitWithSpace(std::span(&pending, 1));
  ASSERT_NE(pending.ticket, 0u);
  append.read = read.get();
  SubmitWithSpace(std::span(&append, 1));
  EXPECT_NE(append.ticket, 0u);
  ASSERT_TRUE(store_->Sync());
  EXPECT_EQ(Get("key"), "newer");
}

// The bytes of the key are its client's, until the store has copied and verified them.
TEST_F(ColdWritesTest, TakeNoResultOfAnotherKey) {
  ASSERT_NO_FATAL_FAILURE(Put("key", "value"));
  ASSERT_NO_FATAL_FAILURE(PutCold("yek", "another"));
  Write append = ColdWrite(Kind::kAppend, "key", "s");
  const std::unique_ptr<ColdRead> read = Begin(append);
  store_->ReadCold(read.get());
  append.key = "yek";
  EXPECT_EQ(Finish(append, read), "again");
  append.key = "key";
  EXPECT_EQ(Finish(append, read), "OK");
  EXPECT_EQ(Get("key"), "values");
  EXPECT_EQ(Get("yek"), "another");
}

// D8.
TEST_F(ColdWritesTest, HoldBackLaterWritesOfTheirSenderAlone) {
  ASSERT_NO_FATAL_FAILURE(PutCold("cold", "old"));
  const int one = 1;
  const int two = 2;
  std::array<Write, 5> writes = {
      ColdWrite(Kind::kPut, "first", "1", &one), ColdWrite(Kind::kPut, "cold", "1", &one),
      ColdWrite(Kind::kPut, "hot", "1", &one), ColdWrite(Kind::kPut, "hot", "2", &two),
      ColdWrite(Kind::kPut, "third", "1", &one)};
  SubmitWithSpace(writes);
  EXPECT_TRUE(writes[0].status.ok()) << writes[0].status;
  EXPECT_TRUE(absl::IsAborted(writes[1].status)) << writes[1].status;
  EXPECT_TRUE(writes[1].needs_read);
  EXPECT_TRUE(absl::IsAborted(writes[2].status)) << writes[2].status;
  EXPECT_FALSE(writes[2].needs_read);
  EXPECT_TRUE(writes[3].status.ok()) << writes[3].status;
  EXPECT_TRUE(absl::IsAborted(writes[4].status)) << writes[4].status;
  EXPECT_EQ(Get("first"), "1");
  EXPECT_EQ(Get("hot"), "2");
  EXPECT_EQ(Get("third"), "NOT_FOUND");
}

TEST_F(ColdWritesTest, PutOffTheirWholeBatch) {
  ASSERT_NO_FATAL_FAILURE(Put("cold", "old"));
  ASSERT_NO_FATAL_FAILURE(PutCold("colder", "old"));
  std::array<Write, 3> batch = {ColdWrite(Kind::kPut, "hot", "new"), ColdWrite(Kind::kDelete, "cold"),
                                ColdWrite(Kind::kPut, "colder", "new")};
  batch[0].begins_batch = true;
  batch[0].continues_batch = true;
  batch[1].continues_batch = true;
  SubmitWithSpace(batch);
  for (const Write& write : batch) EXPECT_TRUE(absl::IsAborted(write.status)) << write.status;
  EXPECT_EQ(Get("hot"), "NOT_FOUND");
  std::vector<std::unique_ptr<ColdRead>> reads;
  store_->BeginReads(batch, &reads);
  ASSERT_EQ(reads.size(), batch.size());
  EXPECT_EQ(reads[0], nullptr);
  for (std::size_t i = 1; i < batch.size(); ++i) {
    ASSERT_NE(reads[i], nullptr) << "the reads of a batch wait for each other";
    store_->ReadCold(reads[i].get());
    batch[i].read = reads[i].get();
  }
  SubmitWithSpace(batch);
  EXPECT_TRUE(batch[0].status.ok()) << batch[0].status;
  EXPECT_EQ(Get("hot"), "new");
  EXPECT_EQ(Get("cold"), "NOT_FOUND");
  EXPECT_EQ(Get("colder"), "new");
}

TEST_F(ColdWritesTest, OfAValueThatExpiredFindNothing) {
  Write write = WriteOf(Kind::kPut, "key", "value");
  write.ttl = hours(1);
  ASSERT_TRUE(CommitPatiently(*store_, clock_, write).ok());
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  Write append = ColdWrite(Kind::kAppend, "key", "new");
  const std::unique_ptr<ColdRead> read = Begin(append);
  store_->ReadCold(read.get());
  clock_.Advance(hours(2));
  EXPECT_EQ(Finish(append, read), "OK");
  EXPECT_EQ(Get("key"), "new");
}

}  // namespace
}  // namespace remora
