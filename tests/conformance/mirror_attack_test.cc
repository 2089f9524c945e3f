// A mirror of the index against a writer that spells records (tests/conformance/location_attack.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/conformance/location_attack.h"
#include "tests/support/self_describing.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

const ClientOptions kAttackedMirror{.index_mirror_bytes = std::size_t{1} << 20};

class MirrorAttack : public LocationAttack {
 protected:
  /// Makes a reader that READs the index itself.
  void ConnectMirrored() {
    reader_.reset();
    reader_ = SimServed::Connect(kAttackedMirror);
  }
  /// Makes a reader that knows the victim's place from its first READs of the index.
  void Plant() override {
    PutVictim("good 1");
    ConnectMirrored();
  }
};

TEST_F(MirrorAttack, AReaderThatSleptThroughItIsNotDeceived) { AttackWhileItSleeps(); }

TEST_F(MirrorAttack, ADeletedKeyDoesNotComeBack) { AttackADeletedKey(); }

TEST_F(MirrorAttack, AReaderThatReadsOtherKeysIsNotDeceived) { AttackWhileItReadsOtherKeys(); }

// The reader READs the place from the log of changes. Then the record dies, and its memory is used again.
TEST_F(MirrorAttack, APlaceOfTheLogOfChangesIsNoLongerGoodThanItsRecord) {
  ConnectMirrored();
  for (int round = 0; round < 5; ++round) {
    PutVictim("good 1");
    for (int i = 0; i < 4; ++i) {
      network_.Advance(milliseconds(101));
      ASSERT_EQ(Get("nothing"), "NOT_FOUND: no such key");
    }
    Put(kVictim, "good 2");
    Attack([] {});
    ASSERT_EQ(Get(kVictim), "good 2");
  }
}

// The changes that the reader READs are older than its last look at the generations. In between, the records
// to which they lead have died, and their memory was used again.
TEST_F(MirrorAttack, AnOldChangeIsNotTakenForANewOne) {
  for (int round = 0; round < 3; ++round) {
    Put("other", "value");
    ConnectMirrored();
    PutVictim("good 1");
    ASSERT_TRUE(writer_->Delete(kVictim).ok());
    Attack([] {});
    ASSERT_EQ(Get("other"), "value");
    for (int i = 0; i < 4; ++i) {
      network_.Advance(milliseconds(101));
      ASSERT_EQ(Get("other"), "value");
    }
    ASSERT_EQ(Get(kVictim), "NOT_FOUND: no such key");
  }
}

// The same, but the reader looks at the generations before it READs the changes: a GET of a cached location
// does not READ them. The changes are older than this look (M3 of client/mirror/mirror_frames.h).
TEST_F(MirrorAttack, AChangeFromBeforeTheLastLookProvesNothing) {
  Put("other", "value");
  reader_.reset();
  reader_ = SimServed::Connect(
      {.location_cache_bytes = std::size_t{1} << 16, .index_mirror_bytes = std::size_t{1} << 20});
  Put("other", "value");  // the mirror's place is out of date: the reader searches, and caches the location
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Get("other"), "value");
  PutVictim("good 1");
  ASSERT_TRUE(writer_->Delete(kVictim).ok());
  Attack([] {});
  const std::uint64_t looks = reader_->counters().generation_reads;
  const std::uint64_t upkeep = reader_->counters().mirror_reads;
  ASSERT_EQ(Get("other"), "value");
  ASSERT_GT(reader_->counters().generation_reads, looks);
  ASSERT_EQ(reader_->counters().mirror_reads, upkeep);
  EXPECT_EQ(Get(kVictim), "NOT_FOUND: no such key");
  EXPECT_GT(reader_->counters().mirror_reads, upkeep + 1);
}

// A frame gets slots of changes after the reader has seen that a segment was emptied. They do not renew the
// slot that led there (M5). Deletions are not in the log of changes, so nothing replaces it.
TEST_F(MirrorAttack, SlotsOfLaterChangesDoNotRenewThatOfADeletedKey) {
  Put("other", "value");
  Plant();
  ASSERT_TRUE(writer_->Delete(kVictim).ok());
  Attack([] {});
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) {
      network_.Advance(milliseconds(101));
      ASSERT_EQ(Get("other"), "value");
    }
    // Slots for all frames.
    for (int i = 0; i < 100; ++i) Put("later " + std::to_string(i), "value");
  }
  EXPECT_EQ(Get(kVictim), "NOT_FOUND: no such key");
}

// The looks of another client of the mirror are recent all the time. They count for the reader's places, too.
TEST_F(MirrorAttack, LooksOfAnotherClientDoNotDeceiveAReader) {
  Put("other", "value");
  Plant();
  const std::unique_ptr<Client> other = SimServed::Connect(kAttackedMirror);
  ASSERT_EQ(other->counters().mirror_reads, 0u) << "it has the reader's mirror";
  const std::uint64_t looks = reader_->counters().generation_reads;
  Put(kVictim, "good 2");
  Attack([&] { ASSERT_EQ(other->Get("other").value_or("none"), "value"); });
  EXPECT_GT(other->counters().generation_reads, 0u);
  EXPECT_EQ(Get(kVictim), "good 2");
  EXPECT_EQ(reader_->counters().generation_reads, looks);
  EXPECT_EQ(other->Get(kVictim).value_or("none"), "good 2");
}

// While the reader's GET is in flight, its record dies, and the segment is emptied. Another client of the
// mirror looks at the generations before the reader learns the place (G4 and G7 of
// client/cache/segment_generations.h).
TEST_F(MirrorAttack, APlaceIsNotLearnedWithALaterLookOfAnotherClient) {
  bool emptied = true;
  int in_time = 0;
  for (std::uint64_t before_piece = 0; emptied && !HasFailure(); ++before_piece) {
    Put("other", "value");
    Put(kVictim, "of before");
    ASSERT_TRUE(writer_->Delete(kVictim).ok());
    reader_.reset();
    reader_ = SimServed::Connect(
        {.location_cache_bytes = std::size_t{1} << 16, .index_mirror_bytes = std::size_t{1} << 20});
    const std::unique_ptr<Client> other = SimServed::Connect(kAttackedMirror);
    // The changes are READ before the victim is there, so that its GET is a search.
    network_.Advance(milliseconds(200));
    for (int i = 0; i < 3; ++i) ASSERT_EQ(Get("nothing"), "NOT_FOUND: no such key");
    PutVictim("good 1");
    emptied = false;
    std::uint64_t piece = 0;
    network_.set_piece_size(16);
    network_.set_interference(
        [&] {
          if (piece++ != before_piece) return;
          emptied = true;
          const TimePoint start = network_.clock().Now();
          const std::byte generation = Generation();
          Put(kVictim, "good 2");
          Overwrite([&] { return Generation() != generation; });
          ASSERT_EQ(other->Get("other").value_or("none"), "value");
          ASSERT_GT(other->counters().generation_reads, 0u);
          if (network_.clock().Now() - start < milliseconds(80)) ++in_time;
        },
        /*gap=*/1);
    EXPECT_THAT(Get(kVictim), testing::StartsWith("good "));
    network_.set_interference(nullptr, 1);
    network_.set_piece_size(4096);
    Attack([] {});
    for (int i = 0; emptied && i < 3; ++i) EXPECT_EQ(Get(kVictim), "good 2") << before_piece;
  }
  EXPECT_GT(in_time, 0);
}

/// Records that are not used leave the memory.
class MirrorAttackOfAnEvictedKey : public MirrorAttack {
 protected:
  void Choose(StoreOptions* options) override {
    options->durability = Durability::kLogged;
    options->data_dir = dir_.path() + "/data";
    options->eviction = Eviction::kLeastUsed;
    big_keys_ = 400;  // more than the memory holds, so that records are evicted before any is dead
  }
  void TearDown() override {
    reader_.reset();
    writer_.reset();
    server_.reset();
  }

  /// Returns whether a slot of the index leads to the victim's old place.
  bool SlotIsThere() const {
    const auto* const directory = reinterpret_cast<const std::uint64_t*>(Region() + DirectoryOffset());
    const std::uint64_t place = MainBucketPlace(directory[0], BucketAtDepth(HashKey(kVictim), 6));
    const auto& bucket = *reinterpret_cast<const Bucket*>(Region() + place * sizeof(Bucket));
    return std::find(bucket.slots.begin(), bucket.slots.end(), EncodeSlot(victim_)) != bucket.slots.end();
  }

  TempDir dir_;
};

// The victim's segment is emptied, and its slot is still in the index, because readers may look at it. At
// this moment the reader READs the index (M2 of client/mirror/mirror_frames.h).
TEST_F(MirrorAttackOfAnEvictedKey, ARetiredSlotIsNotMirrored) {
  PutVictim("good 1");
  const std::byte generation = Generation();
  Overwrite([&] { return Generation() != generation; });
  ASSERT_TRUE(SlotIsThere());
  const std::byte emptied = Generation();
  ConnectMirrored();
  Attack([] {});
  ASSERT_TRUE(EvilStandsThere());
  ASSERT_EQ(Generation(), emptied);
  EXPECT_EQ(Get(kVictim), "good 1");
}

// Everything at random, many times over: writes, attacks without aim, and time that jumps, between READs and
// inside them.
class MirrorChaos : public MirrorAttack, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, MirrorChaos, testing::Range(1, 4));

TEST_P(MirrorChaos, NoGetIsEverWrong) {
  ConnectMirrored();
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  constexpr std::size_t kKeys = 50;
  const auto key_of = [](std::size_t i) { return "key " + std::to_string(10 + i); };
  std::vector<std::uint64_t> written(kKeys, 0);
  std::uint64_t number = 0;
  const auto write_one = [&] {
    const std::size_t i = number < kKeys ? number : random() % kKeys;
    ++number;
    Put(key_of(i), MakeValue(key_of(i), number, 50'000 * (1 + number % 3)));
    written[i] = number;
  };
  while (number < kKeys) write_one();
  const auto interference = [&] {
    if (random() % 4 == 0) network_.Advance(milliseconds(random() % 250));
    for (std::uint64_t writes = random() % 4; writes > 0; --writes) write_one();
  };
  for (int gets = 0; gets < 1000 && !HasFailure(); ++gets) {
    network_.set_interference(interference, /*gap=*/40);
    if (gets % 100 == 0) ConnectMirrored();
    const std::size_t i = random() % kKeys;
    const std::uint64_t oldest = written[i];
    std::string value;
    const absl::Status status = reader_->Get(key_of(i), &value);
    // A server that a reader cannot keep up with says so; nothing else may go wrong.
    ASSERT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    if (!status.ok()) continue;
    const std::optional<std::uint64_t> seen = NumberOf(key_of(i), value);
    ASSERT_TRUE(seen.has_value()) << "torn or foreign: " << value.substr(0, 60);
    ASSERT_GE(*seen, oldest);
    ASSERT_LE(*seen, written[i]);
  }
  EXPECT_GT(reader_->counters().mirror_hits, 5u);
  EXPECT_GT(server_->store().Read(Metric::kSegmentsCleaned), 50u);
}

}  // namespace
}  // namespace remora
