// Stores with more data than memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "patient_writes.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"
#include "twin_keys.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class EvictionTest : public testing::Test {
 protected:
  static constexpr int kMuch = 10'000;  // the memory holds a third of so many values
  const std::string value_ = std::string(4000, 'v');

  TempDir temp_;
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_;

  void Open(Durability durability) {
    StoreOptions options;
    options.memory_size = kMinMemorySize;
    options.grace = milliseconds(kMinGraceMs);
    options.clock = &clock_;
    options.durability = durability;
    if (durability == Durability::kLogged) options.data_dir = temp_ / "store";
    store_.reset();
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  static std::string KeyOf(int i) { return "key " + std::to_string(i); }
  std::string ValueOf(int i) const { return KeyOf(i) + value_; }

  absl::Status Do(Write write) { return CommitPatiently(*store_, clock_, write); }
  absl::Status Put(std::string_view key, std::string_view value,
                   std::optional<milliseconds> ttl = std::nullopt) {
    Write write;
    write.key = key;
    write.value = value;
    write.ttl = ttl;
    return Do(write);
  }
  absl::Status Delete(std::string_view key) {
    Write write;
    write.kind = Write::Kind::kDelete;
    write.key = key;
    return Do(write);
  }
  absl::Status Touch(std::string_view key, milliseconds ttl) {
    Write write;
    write.kind = Write::Kind::kTouch;
    write.key = key;
    write.ttl = ttl;
    return Do(write);
  }
  /// Returns the value, or the name of the status that Get returned.
  std::string Get(std::string_view key) { return GetPatiently(*store_, clock_, key); }

  void Fill(int from = 0, int to = kMuch) {
    for (int i = from; i < to; ++i) ASSERT_TRUE(Put(KeyOf(i), ValueOf(i)).ok()) << i;
  }
  bool IsCold(std::string_view key) const {
    const std::uint64_t fetches = store_->Read(Metric::kFetches);
    return store_->Locate(key).ok() && store_->Read(Metric::kFetches) > fetches;
  }
};

// --- With a durable tier --------------------------------------------------------------------------------

TEST_F(EvictionTest, AColdKeyIsPromotedByAGet) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kLogged));
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch + 0u);
  EXPECT_GT(store_->Read(Metric::kColdKeys), kMuch / 2u);
  EXPECT_GE(store_->Read(Metric::kEvictions), store_->Read(Metric::kColdKeys));
  for (int i = 0; i < kMuch; ++i) ASSERT_EQ(Get(KeyOf(i)), ValueOf(i)) << i;
  EXPECT_GT(store_->Read(Metric::kFetches), kMuch / 2u);
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch + 0u);
  for (int i = kMuch; i < 2 * kMuch; ++i) ASSERT_EQ(Get(KeyOf(i)), "NOT_FOUND") << i;
}

TEST_F(EvictionTest, EmbeddedGetsWaitForSpace) {
  clock_.Advance({});
  StoreOptions options = LoggedIn(temp_ / "store");
  options.grace = milliseconds(kMinGraceMs);
  store_ = *ServerStore::Open(options);
  for (int i = 0; i < kMuch; ++i) ASSERT_TRUE(store_->Put(KeyOf(i), ValueOf(i)).ok());
  std::string value;
  for (int i = 0; i < kMuch; ++i) {
    ASSERT_TRUE(store_->Get(KeyOf(i), &value).ok()) << i;
    ASSERT_EQ(value, ValueOf(i));
  }
}

TEST_F(EvictionTest, WritesOfColdKeys) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kLogged));
  ASSERT_NO_FATAL_FAILURE(Fill());
  const std::uint64_t cold = store_->Read(Metric::kColdKeys);
  const std::uint64_t fetches = store_->Read(Metric::kFetches);
  // The store has evicted the first keys, because nothing used them.
  EXPECT_TRUE(Put(KeyOf(0), "new").ok());
  EXPECT_TRUE(Delete(KeyOf(1)).ok());
  EXPECT_TRUE(Touch(KeyOf(2), std::chrono::hours(1)).ok());
  EXPECT_EQ(store_->Read(Metric::kColdKeys), cold - 3);
  EXPECT_EQ(store_->Read(Metric::kFetches), fetches) << "it takes no other record to memory for that";
  EXPECT_EQ(Get(KeyOf(0)), "new");
  EXPECT_EQ(Get(KeyOf(1)), "NOT_FOUND");
  EXPECT_EQ(Get(KeyOf(2)), ValueOf(2));
  EXPECT_GT(store_->Ttl(KeyOf(2))->value(), milliseconds(0));
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch - 1u);
  EXPECT_EQ(Delete(KeyOf(1)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Touch(KeyOf(1), std::chrono::hours(1)).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Put(KeyOf(1), "again").ok());
  EXPECT_EQ(Get(KeyOf(1)), "again");
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch + 0u);
}

TEST_F(EvictionTest, OneGroupMayWriteAColdKeyManyTimes) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kLogged));
  ASSERT_NO_FATAL_FAILURE(Fill());
  const std::string key = KeyOf(0);
  const auto write = [&](Write::Kind kind, std::string_view value = "") {
    Write one;
    one.kind = kind;
    one.key = key;
    one.value = value;
    if (kind == Write::Kind::kTouch) one.ttl = std::chrono::hours(1);
    return one;
  };
  using Kind = Write::Kind;
  Write group[] = {write(Kind::kTouch),      write(Kind::kDelete), write(Kind::kDelete),
                   write(Kind::kPut, "one"), write(Kind::kDelete), write(Kind::kTouch),
                   write(Kind::kPut, "two"), write(Kind::kTouch)};
  store_->Commit(group);
  for (const std::size_t done : {0u, 1u, 3u, 4u, 6u, 7u}) EXPECT_TRUE(group[done].status.ok()) << done;
  for (const std::size_t missed : {2u, 5u}) EXPECT_TRUE(absl::IsNotFound(group[missed].status)) << missed;
  EXPECT_EQ(Get(key), "two");
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch + 0u);
}

TEST_F(EvictionTest, KeysThatAColdSlotCannotTellApart) {
  const std::uint64_t hashes[] = {HashKey(kFirstTwin), HashKey(kSecondTwin)};
  ASSERT_EQ(EncodeColdSlot(hashes[0]), EncodeColdSlot(hashes[1]));
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kLogged));
  ASSERT_TRUE(Put(kFirstTwin, "first").ok());
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_EQ(Get(kSecondTwin), "NOT_FOUND") << "the cold one is the other";
  EXPECT_EQ(Delete(kSecondTwin).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Put(kSecondTwin, "second").ok());
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch + 2u);
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_EQ(Get(kFirstTwin), "first");
  EXPECT_EQ(Get(kSecondTwin), "second");
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_TRUE(Delete(kFirstTwin).ok());
  EXPECT_EQ(Get(kFirstTwin), "NOT_FOUND");
  EXPECT_EQ(Get(kSecondTwin), "second");
}

TEST_F(EvictionTest, ColdKeysExpire) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kLogged));
  constexpr int kShort = 10;
  for (int i = 0; i < kShort; ++i)
    ASSERT_TRUE(Put("short " + std::to_string(i), "v", std::chrono::hours(1)).ok());
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_TRUE(IsCold("short 0"));
  EXPECT_EQ(Get("short 0"), "v");
  clock_.Advance(std::chrono::hours(2));
  EXPECT_EQ(Get("short 1"), "NOT_FOUND");
  EXPECT_EQ(Delete("short 2").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Touch("short 3", std::chrono::hours(1)).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Put("short 4", "new").ok());
  EXPECT_EQ(Get("short 4"), "new");
}

TEST_F(EvictionTest, ColdKeysThatExpiredAreRemovedThoughNobodyAsks) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kLogged));
  for (int i = 0; i < kMuch; ++i) {
    ASSERT_TRUE(Put(KeyOf(i), ValueOf(i), std::chrono::hours(i % 3 == 0 ? 1 : i % 3 == 1 ? 5 : 1000)).ok());
  }
  const auto work = [&] {
    for (int i = 0; i < 3 * kMuch / 100 && store_->next_maintenance() <= clock_.Now(); ++i)
      store_->RunMaintenance();
  };
  work();
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch + 0u);
  clock_.Advance(std::chrono::hours(2));
  EXPECT_LE(store_->next_maintenance(), clock_.Now()) << "who sleeps until then has to wake up";
  work();
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch * 2u / 3);
  EXPECT_EQ(store_->Read(Metric::kExpired), kMuch / 3u + 1);
  // Now writes go on beside the expirer.
  clock_.Advance(std::chrono::hours(4));
  for (int i = 0; i < kMuch; ++i) ASSERT_TRUE(Put("others", "value").ok());
  work();
  EXPECT_EQ(store_->Read(Metric::kKeys), kMuch / 3u + 1);
  for (int i = 2; i < kMuch; i += 3) ASSERT_EQ(Get(KeyOf(i)), ValueOf(i)) << i;
}

TEST_F(EvictionTest, HoldsWhatAMapHolds) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kLogged));
  std::map<std::string, std::string> model;
  std::mt19937_64 random(1);
  for (int i = 0; i < 60'000; ++i) {
    const std::string key = KeyOf(static_cast<int>(random() % kMuch));
    const auto found = model.find(key);
    switch (random() % 8) {
      case 0: {
        ASSERT_EQ(Delete(key).ok(), found != model.end());
        model.erase(key);
        break;
      }
      case 1:
        ASSERT_EQ(Touch(key, std::chrono::hours(1000)).ok(), found != model.end());
        break;
      case 2:
      case 3:
        ASSERT_EQ(Get(key), found == model.end() ? "NOT_FOUND" : found->second) << key;
        break;
      default: {
        std::string value = std::to_string(i) + std::string(random() % 8000, 'v');
        ASSERT_TRUE(Put(key, value).ok());
        model[key] = std::move(value);
      }
    }
    if (random() % 50 == 0) clock_.Advance(milliseconds(random() % 60));
  }
  EXPECT_GT(store_->Read(Metric::kColdKeys), 1000u);
  EXPECT_EQ(store_->Read(Metric::kKeys), model.size());
  for (const auto& [key, value] : model) ASSERT_EQ(Get(key), value) << key;
}

// --- Without ---------------------------------------------------------------------------------------------

TEST_F(EvictionTest, ACacheDropsWhatItHasNoSpaceFor) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kMemory));
  ASSERT_NO_FATAL_FAILURE(Fill());
  const std::uint64_t keys = store_->Read(Metric::kKeys);
  EXPECT_GT(keys, kMuch / 10u);
  EXPECT_LT(keys, kMuch / 2u);
  EXPECT_EQ(store_->Read(Metric::kEvictions), kMuch - keys);
  EXPECT_EQ(store_->Read(Metric::kColdKeys), 0u);
  std::uint64_t found = 0;
  for (int i = 0; i < kMuch; ++i) {
    const std::string value = Get(KeyOf(i));
    if (value == "NOT_FOUND") continue;
    ASSERT_EQ(value, ValueOf(i));
    ++found;
  }
  EXPECT_EQ(found, keys);
}

// --- Which ----------------------------------------------------------------------------------------------

TEST_F(EvictionTest, UsedKeysSurviveAScan) {
  for (const Durability durability : {Durability::kMemory, Durability::kLogged}) {
    ASSERT_NO_FATAL_FAILURE(Open(durability));
    constexpr int kUsed = 1000;  // a third of what the memory holds
    ASSERT_NO_FATAL_FAILURE(Fill(0, kUsed));
    // Between two uses of a key, the test writes 5,000 other keys once: more than the memory holds.
    int gone = 0;
    for (int i = kUsed; i < 8 * kMuch; ++i) {
      ASSERT_TRUE(Put(KeyOf(i), ValueOf(i)).ok());
      if (i % 5 != 0) continue;
      const int used = i / 5 % kUsed;
      const std::uint64_t fetches = store_->Read(Metric::kFetches);
      const bool missed = Get(KeyOf(used)) == "NOT_FOUND";
      if (missed) {
        ASSERT_TRUE(Put(KeyOf(used), ValueOf(used)).ok());
      }
      const bool settled = i >= 6 * kMuch;
      if (settled && (missed || store_->Read(Metric::kFetches) > fetches)) ++gone;
    }
    EXPECT_LT(gone, 2 * kMuch / 5 / 20);
  }
}

TEST_F(EvictionTest, ReadsAreWantedOnlyWhenTheMemoryFills) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kMemory));
  EXPECT_FALSE(store_->wants_reads());
  ASSERT_NO_FATAL_FAILURE(Fill(0, 100));
  EXPECT_FALSE(store_->wants_reads());
  // Overwrites leave enough dead memory for new records, so the store evicts none.
  for (int i = 0; i < 8 * kMuch; ++i) ASSERT_TRUE(Put(KeyOf(i % 100), ValueOf(i % 100)).ok());
  EXPECT_EQ(store_->Read(Metric::kEvictions), 0u);
  EXPECT_FALSE(store_->wants_reads());
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_TRUE(store_->wants_reads());
}

// While writers wait for space, the store evicts ahead of them. When
// they have ended, it has more free memory than at other times.
TEST_F(EvictionTest, ReadsAreWantedAlsoWhenMoreWasEvictedThanIsMissing) {
  ASSERT_NO_FATAL_FAILURE(Open(Durability::kMemory));
  bool had_much_space = false;
  for (int i = 0; i < kMuch; i += 700) {
    ASSERT_NO_FATAL_FAILURE(Fill(i, i + 700));
    if (store_->Read(Metric::kEvictions) == 0) continue;
    clock_.Advance(milliseconds(3 * kMinGraceMs));
    while (store_->RunMaintenance()) {
    }
    had_much_space |= store_->Read(Metric::kMemoryBytesFree) >= kMinMemorySize / 4;
    ASSERT_TRUE(store_->wants_reads())
        << i << ", " << store_->Read(Metric::kMemoryBytesFree) << " bytes free";
  }
  EXPECT_TRUE(had_much_space);
}

}  // namespace
}  // namespace remora
