// Large records in an embedded store.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "patient_writes.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

std::string ValueOf(std::size_t size, std::uint64_t number) {
  std::string value(size, static_cast<char>('a' + number % 26));
  std::memcpy(value.data(), &number, std::min(size, sizeof(number)));
  return value;
}

class LargeTest : public testing::TestWithParam<Durability> {
 protected:
  void Open(std::size_t memory_size, Eviction eviction) {
    store_.reset();
    StoreOptions options;
    options.memory_size = memory_size;
    options.eviction = eviction;
    options.durability = GetParam();
    if (GetParam() == Durability::kLogged) options.data_dir = dir_.path() + "/data";
    options.clock = &clock_;
    auto store = ServerStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  /// Commits a write, and repeats it while it is Aborted. The test's clock advances meanwhile.
  absl::Status Commit(Write write) { return CommitPatiently(*store_, clock_, write); }
  absl::Status Put(std::string_view key, std::string_view value) {
    Write write;
    write.key = key;
    write.value = value;
    return Commit(write);
  }
  absl::Status Delete(std::string_view key) {
    Write write;
    write.kind = Write::Kind::kDelete;
    write.key = key;
    return Commit(write);
  }

  const TempDir dir_;
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_;
};

INSTANTIATE_TEST_SUITE_P(All, LargeTest, testing::Values(Durability::kMemory, Durability::kLogged),
                         [](const auto& test) {
                           return test.param == Durability::kMemory ? "Memory" : "Logged";
                         });

TEST_P(LargeTest, AgreesWithAMapOfMixedSizes) {
  ASSERT_NO_FATAL_FAILURE(Open(48 * kMiB, Eviction::kNone));
  std::mt19937_64 random(2);
  std::map<std::string, std::string> model;
  int rejected = 0;
  for (std::uint64_t round = 0; round < 1200; ++round) {
    const std::string key = "key " + std::to_string(random() % 24);
    const std::uint64_t dice = random() % 10;
    if (dice == 0) {
      EXPECT_EQ(Delete(key).ok(), model.erase(key) == 1);
    } else {
      const std::size_t size = dice < 6 ? random() % 100'000 : kMiB / 4 + 1 + random() % (4 * kMiB);
      const std::string value = ValueOf(size, round);
      const absl::Status status = Put(key, value);
      ASSERT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
      if (status.ok()) {
        model[key] = value;
      } else {
        ++rejected;
      }
    }
    clock_.Advance(milliseconds(random() % 50));
    const std::string asked = "key " + std::to_string(random() % 24);
    std::string got;
    const bool found = store_->Get(asked, &got).ok();
    ASSERT_EQ(found, model.contains(asked)) << round;
    if (found) {
      ASSERT_TRUE(got == model[asked]) << round;
    }
  }
  EXPECT_GT(rejected, 0) << "the memory should have been full at times";
  EXPECT_EQ(store_->Read(Metric::kKeys), model.size());
  if (GetParam() == Durability::kLogged) {
    ASSERT_NO_FATAL_FAILURE(Open(96 * kMiB, Eviction::kNone));
    for (const auto& [key, value] : model) {
      std::string got;
      ASSERT_TRUE(store_->Get(key, &got).ok() && got == value) << key;
    }
  }
}

TEST_P(LargeTest, SpaceThatIsReservedIsFilledInPlace) {
  ASSERT_NO_FATAL_FAILURE(Open(32 * kMiB, Eviction::kNone));
  const std::string value = ValueOf(3 * kMiB, 1);
  const auto reservation = store_->Reserve(3, value.size());
  ASSERT_TRUE(reservation.ok()) << reservation.status();
  ASSERT_EQ(reservation->bytes.size(), 3 + value.size());
  EXPECT_GT(store_->Read(Metric::kLogBytesUsed), 3 * kMiB);
  std::memcpy(reservation->bytes.data(), "key", 3);
  std::memcpy(reservation->bytes.data() + 3, value.data(), value.size());
  std::string got;
  EXPECT_TRUE(absl::IsNotFound(store_->Get("key", &got)));
  Write write;
  write.reserved = &*reservation;
  ASSERT_TRUE(Commit(write).ok());
  ASSERT_TRUE(store_->Get("key", &got).ok());
  EXPECT_TRUE(got == value);
}

TEST_P(LargeTest, SpaceIsFreeAgainThatWasGivenBackOrDidNotVerify) {
  ASSERT_NO_FATAL_FAILURE(Open(32 * kMiB, Eviction::kNone));
  const std::uint64_t free = store_->Read(Metric::kMemoryBytesFree);
  const auto first = store_->Reserve(3, 3 * kMiB);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(store_->Read(Metric::kMemoryBytesFree), free - 4 * kMiB);
  store_->Release(*first);
  EXPECT_EQ(store_->Read(Metric::kMemoryBytesFree), free);
  const auto second = store_->Reserve(3, 3 * kMiB);
  ASSERT_TRUE(second.ok());
  Write write;
  write.reserved = &*second;
  write.verify = [](const void*, std::uint64_t, std::uint64_t) { return false; };
  EXPECT_TRUE(absl::IsDataLoss(Commit(write)));
  EXPECT_EQ(store_->Read(Metric::kMemoryBytesFree), free);
  EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), 0u);
}

// Each outcome but Aborted uses a reservation up, whichever check rejects the write.
TEST_P(LargeTest, SpaceIsFreeAgainOfABatchThatMayNotHaveIt) {
  ASSERT_NO_FATAL_FAILURE(Open(32 * kMiB, Eviction::kNone));
  const std::uint64_t free = store_->Read(Metric::kMemoryBytesFree);
  for (const bool is_alone : {true, false}) {
    const auto first = store_->Reserve(3, 3 * kMiB);
    const auto second = store_->Reserve(3, 3 * kMiB);
    ASSERT_TRUE(first.ok() && second.ok());
    std::vector<Write> writes(is_alone ? 2 : 3);
    writes[0].reserved = &*first;
    writes[0].begins_batch = is_alone;
    writes[1].reserved = &*second;
    writes[1].begins_batch = is_alone;
    for (std::size_t i = 0; !is_alone && i < 2; ++i) writes[i].continues_batch = true;
    writes.back().key = "key";
    store_->Commit(writes);
    for (const Write& write : writes) EXPECT_TRUE(absl::IsInvalidArgument(write.status)) << write.status;
    ASSERT_TRUE(store_->Put("other", "value").ok());  // which also updates the counters
    EXPECT_EQ(store_->Read(Metric::kMemoryBytesFree), free - kMiB) << "the segment of the small values";
  }
}

TEST_P(LargeTest, SpaceIsReservedForLargeValuesThatFit) {
  ASSERT_NO_FATAL_FAILURE(Open(32 * kMiB, Eviction::kNone));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Reserve(3, kMaxSmallValueSize).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Reserve(3, kMaxValueSize + 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Reserve(0, kMiB).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Reserve(kMaxKeySize + 1, kMiB).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Reserve(3, 32 * kMiB).status()));
}

TEST_P(LargeTest, AnExpiredLargeValueIsSwept) {
  ASSERT_NO_FATAL_FAILURE(Open(32 * kMiB, Eviction::kNone));
  const std::uint64_t free = store_->Read(Metric::kMemoryBytesFree);
  const std::string value = ValueOf(3 * kMiB, 1);
  Write write;
  write.key = "key";
  write.value = value;
  write.ttl = milliseconds(500);
  ASSERT_TRUE(Commit(write).ok());
  clock_.Advance(milliseconds(1500));
  while (store_->RunMaintenance()) {
  }
  EXPECT_EQ(store_->Read(Metric::kKeys), 0u);
  EXPECT_EQ(store_->Read(Metric::kExpired), 1u);
  clock_.Advance(milliseconds(300));
  store_->RunMaintenance();
  ASSERT_TRUE(Put("small", "value").ok());
  EXPECT_EQ(store_->Read(Metric::kMemoryBytesFree), free - kSegmentSize);
}

// A store with eviction takes any number of large values. With a durable tier, it keeps all of them.
TEST_P(LargeTest, LargeRecordsAreEvicted) {
  ASSERT_NO_FATAL_FAILURE(Open(32 * kMiB, Eviction::kLeastUsed));
  constexpr int kKeys = 20;
  for (int i = 0; i < kKeys; ++i) {
    const absl::Status status =
        Put("key " + std::to_string(i), ValueOf(3 * kMiB, static_cast<std::uint64_t>(i)));
    ASSERT_TRUE(status.ok()) << i << ": " << status;
  }
  EXPECT_GT(store_->Read(Metric::kEvictions), 10u);
  int there = 0;
  for (int i = kKeys; i-- > 0;) {
    std::string got;
    absl::Status status;
    const std::string key = "key " + std::to_string(i);
    while (absl::IsAborted(status = store_->Locate(key).status())) clock_.Advance(milliseconds(20));
    if (absl::IsNotFound(status)) continue;
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(store_->Get(key, &got).ok());
    EXPECT_TRUE(got == ValueOf(3 * kMiB, static_cast<std::uint64_t>(i))) << i;
    ++there;
  }
  if (GetParam() == Durability::kLogged) {
    EXPECT_EQ(there, kKeys);
    EXPECT_GT(store_->Read(Metric::kFetches), 5u);
  } else {
    EXPECT_GE(there, 3);
  }
}

TEST_P(LargeTest, SmallOnesMakeSpaceForLargeOnesAndTheOtherWayRound) {
  ASSERT_NO_FATAL_FAILURE(Open(32 * kMiB, Eviction::kLeastUsed));
  const std::string small(50'000, 's');
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 800; ++i) {
      ASSERT_TRUE(Put("small " + std::to_string(i), small).ok()) << i;
    }
    for (int i = 0; i < 6; ++i) {
      const absl::Status status = Put("large " + std::to_string(i), ValueOf(7 * kMiB, 1));
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  std::string got;
  ASSERT_TRUE(store_->Get("large 5", &got).ok());
  EXPECT_TRUE(got == ValueOf(7 * kMiB, 1));
}

// Each request finds space, whatever the memory contains, and even if a part of it is reserved. At the latest
// it does when the reservation is given back.
TEST_P(LargeTest, ValuesOfAQuarterOfTheMemoryComeAndGo) {
  if (GetParam() == Durability::kMemory) GTEST_SKIP() << "what makes space is gone";
  ASSERT_NO_FATAL_FAILURE(Open(16 * kMiB, Eviction::kLeastUsed));
  std::mt19937_64 random(3);
  std::map<std::string, std::string> model;
  std::optional<Reservation> reserved;
  int waits = 0;
  const auto give_back = [&] {
    if (reserved) store_->Release(*reserved);
    reserved.reset();
  };
  // Repeats an operation while it is Aborted, and at last gives the reservation back, as a server does.
  const auto patiently = [&](const auto& try_it) {
    for (int tries = 0;; ++tries) {
      const absl::Status status = try_it();
      if (!absl::IsAborted(status)) return status;
      clock_.Advance(milliseconds(20));
      if (tries == 100 && reserved) {
        ++waits;
        give_back();
      }
    }
  };
  for (std::uint64_t round = 0; round < 1500; ++round) {
    const std::string key = "key " + std::to_string(random() % 24);
    const std::uint64_t dice = random() % 12;
    if (dice == 0) {
      give_back();
      const auto reservation = store_->Reserve(3, kMiB / 4 + 1 + random() % (4 * kMiB));
      if (reservation.ok()) reserved = *reservation;
    } else if (dice < 6) {
      const std::size_t size = dice < 4 ? random() % 200'000 : kMiB / 4 + 1 + random() % (4 * kMiB);
      const std::string value = ValueOf(size, round);
      Write write;
      write.key = key;
      write.value = value;
      absl::StatusOr<Reservation> place;
      if (size > kMaxSmallValueSize) {
        const absl::Status space = patiently([&] {
          place = store_->Reserve(key.size(), size);
          return place.status();
        });
        ASSERT_TRUE(space.ok()) << round << ": " << space;
        std::memcpy(place->bytes.data(), key.data(), key.size());
        std::memcpy(place->bytes.data() + key.size(), value.data(), size);
        write.reserved = &*place;
      }
      const absl::Status status = patiently([&] {
        store_->Commit(std::span(&write, 1));
        return write.status;
      });
      ASSERT_TRUE(status.ok()) << round << ": " << status;
      model[key] = value;
    } else {
      const absl::Status status = patiently([&] { return store_->Locate(key).status(); });
      ASSERT_EQ(status.ok(), model.contains(key)) << round << ": " << status;
      std::string got;
      if (status.ok()) {
        ASSERT_TRUE(store_->Get(key, &got).ok() && got == model[key]) << round;
      }
    }
    clock_.Advance(milliseconds(random() % 50));
  }
  EXPECT_GT(store_->Read(Metric::kFetches), 50u);
  EXPECT_GT(waits, 0) << "at times there was space only in what was reserved";
}

// A touch needs as much space as a put. Here only the record that it touches could make way.
TEST_P(LargeTest, ATouchWithoutSpaceEnds) {
  ASSERT_NO_FATAL_FAILURE(Open(32 * kMiB, Eviction::kLeastUsed));
  ASSERT_TRUE(Put("key", ValueOf(18 * kMiB, 1)).ok());
  Write touch;
  touch.kind = Write::Kind::kTouch;
  touch.key = "key";
  touch.ttl = std::chrono::hours(1);
  const absl::Status status = Commit(touch);
  if (GetParam() == Durability::kMemory) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
  } else {
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace remora
