// K1 and K2 of store/durable/kept_iterator.h.
#include "store/durable/kept_iterator.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "log_database.h"
#include "test_files.h"
#include "tests/support/patience.h"

namespace remora {
namespace {

class KeptIteratorTest : public testing::Test {
 protected:
  void SetUp() override { db_.Open(temp_ / "db", kept_.listener()); }
  void TearDown() override {
    kept_.Drop();
    db_.Close();
  }

  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(db_->Put({}, db_.entries(), key, value).ok());
  }
  void Flush() { ASSERT_TRUE(db_->Flush({}, {db_.entries(), db_.meta()}).ok()); }
  /// Takes the iterator, or makes one.
  KeptIterator::Taken Take() {
    KeptIterator::Taken taken = kept_.Take();
    if (taken.iterator == nullptr) taken.iterator.reset(db_->NewIterator({}, db_.entries()));
    return taken;
  }
  /// Returns the value of a key. Empty: it does not exist.
  static std::string Find(rocksdb::Iterator& iterator, const std::string& key) {
    iterator.Seek(key);
    return iterator.Valid() && iterator.key() == key ? iterator.value().ToString() : "";
  }
  /// Returns the bytes of memtables that are flushed, and that an iterator holds.
  std::uint64_t PinnedBytes() {
    std::uint64_t all = 0;
    std::uint64_t unflushed = 0;
    EXPECT_TRUE(db_->GetIntProperty(db_.entries(), rocksdb::DB::Properties::kSizeAllMemTables, &all));
    EXPECT_TRUE(
        db_->GetIntProperty(db_.entries(), rocksdb::DB::Properties::kCurSizeAllMemTables, &unflushed));
    return all - unflushed;
  }
  /// Waits until RocksDB has told of what it did. Returns false if memtables stay pinned.
  bool AwaitNonePinned() {
    const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
    while (PinnedBytes() > 0) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  TempDir temp_;
  KeptIterator kept_;
  LogDatabase db_;
};

TEST_F(KeptIteratorTest, AReadSeesAllThatWasWrittenBefore) {
  ASSERT_EQ(kept_.Take().iterator, nullptr);
  ASSERT_NO_FATAL_FAILURE(Put("a", "1"));
  KeptIterator::Taken taken = Take();
  EXPECT_EQ(Find(*taken.iterator, "a"), "1");
  kept_.Keep(std::move(taken));
  ASSERT_NO_FATAL_FAILURE(Put("a", "2"));
  ASSERT_NO_FATAL_FAILURE(Put("b", "3"));
  taken = kept_.Take();
  ASSERT_NE(taken.iterator, nullptr);
  EXPECT_FALSE(taken.iterator->Valid());
  EXPECT_EQ(Find(*taken.iterator, "a"), "2");
  EXPECT_EQ(Find(*taken.iterator, "b"), "3");
  EXPECT_EQ(kept_.Take().iterator, nullptr) << "it is in use";
}

TEST_F(KeptIteratorTest, AnIdleIteratorPinsNoFlushedMemtable) {
  ASSERT_NO_FATAL_FAILURE(Put("a", "1"));
  kept_.Keep(Take());
  ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_TRUE(AwaitNonePinned());
  EXPECT_EQ(kept_.Take().iterator, nullptr);
}

TEST_F(KeptIteratorTest, AnIteratorThatIsOutOfDateIsNotKept) {
  ASSERT_NO_FATAL_FAILURE(Put("a", "1"));
  KeptIterator::Taken taken = Take();
  ASSERT_NO_FATAL_FAILURE(Flush());
  EXPECT_GT(PinnedBytes(), 0u);
  // The flush counts once RocksDB has told of it. Until then, an iterator is kept, and dropped by that.
  kept_.Keep(std::move(taken));
  EXPECT_TRUE(AwaitNonePinned());
  EXPECT_EQ(kept_.Take().iterator, nullptr);
}

}  // namespace
}  // namespace remora
