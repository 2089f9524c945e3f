// Reads of cold keys without the lock: the invariants D1 to D5 of store/read/cold_read.h.
#include "store/read/cold_read.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cold_fixture.h"
#include "patient_writes.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"
#include "twin_keys.h"

namespace remora {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

/// Tests of cold reads. Parameter: the caller takes values of records that stay in the durable tier.
class ColdReadTest : public ColdFixture, public testing::WithParamInterface<bool> {
 protected:
  static bool may_stay() { return GetParam(); }
  /// Begins to locate a key that memory does not have.
  ColdRead Begin(const std::string& key) {
    ColdRead read;
    const absl::StatusOr<std::optional<Location>> location = store_->BeginLocate(key, &read);
    EXPECT_TRUE(location.ok() && !location->has_value()) << key << " is not cold: " << location.status();
    return read;
  }
  /// Returns the value at the location or of the read, the name of the status, or "again".
  std::string Finish(ColdRead* read) {
    absl::StatusOr<std::optional<Location>> location = store_->FinishLocate(read, may_stay());
    if (!location.ok()) return absl::StatusCodeToString(location.status().code());
    if (!location->has_value()) return "again";
    if ((*location)->slot == 0) {
      EXPECT_TRUE(may_stay());
      EXPECT_EQ((*location)->version, read->header.version);
      return read->value;
    }
    std::string value;
    std::uint64_t version = 0;
    EXPECT_TRUE(store_->Get(read->key, &value, &version).ok());
    EXPECT_EQ((*location)->version, version);
    return value;
  }
  std::string ReadAndFinish(ColdRead* read) {
    store_->ReadCold(read);
    return Finish(read);
  }
};

INSTANTIATE_TEST_SUITE_P(Records, ColdReadTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "may_stay" : "come_back"; });

TEST_P(ColdReadTest, BringsTheRecordBackOrLeavesIt) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "value"));
  const std::uint64_t fetches = store_->Read(Metric::kFetches),
                      passed = store_->Read(Metric::kColdReadsPassed);
  ColdRead read = Begin("key");
  EXPECT_EQ(ReadAndFinish(&read), "value");
  EXPECT_EQ(store_->Read(Metric::kFetches), fetches + (may_stay() ? 0 : 1));
  EXPECT_EQ(store_->Read(Metric::kColdReadsPassed), passed + (may_stay() ? 1 : 0));
  const absl::StatusOr<std::optional<Location>> location = store_->BeginLocate("key", &read);
  EXPECT_TRUE(location.ok() && location->has_value() != may_stay());
}

TEST_P(ColdReadTest, TwoReadsOfAKeyBringItBackOnceAtMost) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "value"));
  const std::uint64_t fetches = store_->Read(Metric::kFetches);
  ColdRead first = Begin("key");
  ColdRead second = Begin("key");
  EXPECT_EQ(ReadAndFinish(&second), "value");
  EXPECT_EQ(ReadAndFinish(&first), "value");
  EXPECT_LE(store_->Read(Metric::kFetches), fetches + 1);
}

TEST_P(ColdReadTest, ARecordThatIsUsedOftenComesBack) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "value"));
  ColdRead read;
  int reads = 0;
  const auto is_cold = [&] { return !store_->BeginLocate("key", &read).value().has_value(); };
  for (; reads < 20 && is_cold(); ++reads) EXPECT_EQ(ReadAndFinish(&read), "value");
  EXPECT_GE(reads, may_stay() ? 2 : 1);
  EXPECT_LT(reads, 20);
}

TEST_P(ColdReadTest, AReadMayBeDropped) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "value"));
  { ColdRead read = Begin("key"); }
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(ColdReadTest, OtherKeysAreWrittenMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "value"));
  ColdRead read = Begin("key");
  ASSERT_NO_FATAL_FAILURE(Put("new", "new"));
  store_->ReadCold(&read);
  ASSERT_NO_FATAL_FAILURE(Put("new", "newer"));
  EXPECT_EQ(Finish(&read), "value");
}

// D1. The record that was read is older than the write, which is not visible yet.
TEST_P(ColdReadTest, AnUnsyncedWriteMeanwhileIsAwaited) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "old"));
  ColdRead read = Begin("key");
  store_->ReadCold(&read);
  Write write = WriteOf(Write::Kind::kPut, "key", "new");
  write.durability = Durability::kSynced;
  store_->Submit(std::span(&write, 1));
  ASSERT_NE(write.ticket, 0u);
  EXPECT_EQ(Finish(&read), "ABORTED");
  ColdRead another;
  EXPECT_TRUE(absl::IsAborted(store_->BeginLocate("key", &another).status()));
  ASSERT_TRUE(store_->Sync());
  EXPECT_EQ(Finish(&read), "new");
}

// D1, for a read that finds the write in the durable tier before it is visible.
TEST_P(ColdReadTest, AnUnsyncedWriteIsNotShownBeforeItsTime) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "old"));
  ColdRead read = Begin("key");
  Write write = WriteOf(Write::Kind::kPut, "key", "new");
  write.durability = Durability::kSynced;
  store_->Submit(std::span(&write, 1));
  ASSERT_NE(write.ticket, 0u);
  EXPECT_EQ(ReadAndFinish(&read), "ABORTED");
  ASSERT_TRUE(store_->Sync());
  EXPECT_EQ(Finish(&read), "new");
}

// D2.
TEST_P(ColdReadTest, AWriteMeanwhileIsFound) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "old"));
  ColdRead read = Begin("key");
  store_->ReadCold(&read);
  ASSERT_NO_FATAL_FAILURE(Put("key", "new"));
  EXPECT_EQ(Finish(&read), "new");
}

TEST_P(ColdReadTest, ADeletionMeanwhileIsFound) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "old"));
  ColdRead read = Begin("key");
  store_->ReadCold(&read);
  ASSERT_NO_FATAL_FAILURE(Delete("key"));
  EXPECT_EQ(Finish(&read), "NOT_FOUND");
}

// D3.
TEST_P(ColdReadTest, AKeyThatWasWrittenAndLeftMemoryIsReadAgain) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "old"));
  ColdRead read = Begin("key");
  store_->ReadCold(&read);
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "new"));
  Begin("key");
  EXPECT_EQ(Finish(&read), "again");
  EXPECT_EQ(ReadAndFinish(&read), "new");
}

TEST_P(ColdReadTest, OneThatLeavesMemoryAllTheTimeIsReadUnderTheLock) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "0"));
  ColdRead read = Begin("key");
  int repeats = 0;
  std::string found = "again";
  for (; found == "again" && repeats < 20; ++repeats) {
    store_->ReadCold(&read);
    ASSERT_NO_FATAL_FAILURE(PutCold("key", std::to_string(repeats)));
    found = Finish(&read);
  }
  EXPECT_EQ(repeats, 8);
  EXPECT_EQ(found, "7");
}

// D3, for a key that becomes cold in a load.
TEST_P(ColdReadTest, ATwinThatIsLoadedColdDoesNotPassForADeletedKey) {
  ASSERT_EQ(EncodeColdSlot(HashKey(kFirstTwin)), EncodeColdSlot(HashKey(kSecondTwin)));
  ASSERT_NO_FATAL_FAILURE(Put(kFirstTwin, "first"));
  ASSERT_NO_FATAL_FAILURE(PutCold(kSecondTwin, "second"));
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
  EXPECT_EQ(Get(kSecondTwin), "second");
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ColdRead read = Begin(kSecondTwin);
  ASSERT_TRUE(read.was_loaded);
  store_->ReadCold(&read);
  ASSERT_NO_FATAL_FAILURE(Delete(kSecondTwin));
  while (store_->Load()) clock_.Advance(milliseconds(1));
  ASSERT_FALSE(store_->loading());
  Begin(kFirstTwin);
  EXPECT_EQ(Finish(&read), "again");
  EXPECT_EQ(ReadAndFinish(&read), "NOT_FOUND");
}

// D4.
TEST_P(ColdReadTest, AKeyThatWasNotLoadedAndIsDeletedDoesNotComeBackBesideItsTwin) {
  ASSERT_NO_FATAL_FAILURE(Put(kFirstTwin, "first"));
  ASSERT_NO_FATAL_FAILURE(PutCold(kSecondTwin, "second"));
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
  EXPECT_EQ(Get(kFirstTwin), "first");
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  Begin(kFirstTwin);
  ColdRead read = Begin(kSecondTwin);
  ASSERT_FALSE(read.was_loaded);
  store_->ReadCold(&read);
  ASSERT_NO_FATAL_FAILURE(Delete(kSecondTwin));
  EXPECT_EQ(Finish(&read), "again");
  EXPECT_EQ(ReadAndFinish(&read), "NOT_FOUND");
}

TEST_P(ColdReadTest, AKeyThatIsNotLoadedIsRead) {
  ASSERT_NO_FATAL_FAILURE(PutCold("key", "value"));
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
  ColdRead read = Begin("key");
  ASSERT_FALSE(read.was_loaded);
  EXPECT_EQ(ReadAndFinish(&read), "value");
  const absl::StatusOr<std::optional<Location>> location = store_->BeginLocate("key", &read);
  EXPECT_TRUE(location.ok() && location->has_value()) << "the index has to learn of it";
  ColdRead missing = Begin("missing");
  EXPECT_EQ(ReadAndFinish(&missing), "NOT_FOUND");
}

// D5.
TEST_P(ColdReadTest, AKeyThatWasThereForAMomentDoesNotComeBackBesideItsTwin) {
  ASSERT_NO_FATAL_FAILURE(PutCold(kFirstTwin, "first"));
  ColdRead read = Begin(kSecondTwin);
  ASSERT_NO_FATAL_FAILURE(Put(kSecondTwin, "second"));
  store_->ReadCold(&read);
  ASSERT_NO_FATAL_FAILURE(Delete(kSecondTwin));
  EXPECT_EQ(Finish(&read), "again");
  EXPECT_EQ(ReadAndFinish(&read), "NOT_FOUND");
  EXPECT_EQ(Get(kFirstTwin), "first");
}

TEST_P(ColdReadTest, ARecordThatExpiresMeanwhileIsNotFound) {
  Write write = WriteOf(Write::Kind::kPut, "key", "value");
  write.ttl = hours(1);
  ASSERT_TRUE(CommitPatiently(*store_, clock_, write).ok());
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ColdRead read = Begin("key");
  store_->ReadCold(&read);
  clock_.Advance(hours(2));
  EXPECT_EQ(Finish(&read), "NOT_FOUND");
}

}  // namespace
}  // namespace remora
