// Warm GETs against a writer that spells records. The bytes of its values, at the place where another key's
// record once stood, are a record of that key that verifies, live bit and all. Under the simulated transport
// time passes when the test says so, between READs and inside them.
#include "tests/conformance/location_attack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "tests/support/self_describing.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

TEST_F(LocationAttack, AReaderThatSleptThroughItIsNotDeceived) { AttackWhileItSleeps(); }

TEST_F(LocationAttack, ADeletedKeyDoesNotComeBack) { AttackADeletedKey(); }

TEST_F(LocationAttack, AKeyThatWasMovedStaysWhatItWas) {
  Plant();
  Attack([] {});
  EXPECT_EQ(Get(kVictim), "good 1");
}

TEST_F(LocationAttack, AReaderThatReadsOtherKeysIsNotDeceived) { AttackWhileItReadsOtherKeys(); }

// While a GET is in flight, at each moment of it that there is, the record is overwritten, its segment
// emptied, and the place used again.
class LocationAttackInside : public LocationAttack, public testing::WithParamInterface<std::size_t> {
 protected:
  /// Attacks before the piece of this number of the READs of a GET. False: it had not so many.
  bool GetWhileAttacked(std::uint64_t before_piece) {
    std::uint64_t piece = 0;
    bool attacked = false;
    network_.set_piece_size(GetParam());
    network_.set_interference(
        [&] {
          if (piece++ != before_piece) return;
          attacked = true;
          Put(kVictim, "good 2");
          Attack([] {});
        },
        /*gap=*/1);
    // It overlaps the write, but not what the attacker wrote: both values are right.
    EXPECT_THAT(Get(kVictim), testing::StartsWith("good ")) << before_piece;
    network_.set_interference(nullptr, 1);
    network_.set_piece_size(4096);
    if (attacked) {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(Get(kVictim), "good 2") << before_piece;
    }
    return attacked && !HasFailure();
  }
};
INSTANTIATE_TEST_SUITE_P(PiecesOf, LocationAttackInside, testing::Values(4, 16, 4096),
                         [](const auto& test) { return std::to_string(test.param) + "_bytes"; });

TEST_P(LocationAttackInside, AWarmGetIsNotDeceived) {
  std::uint64_t piece = 0;
  do {
    Plant();
  } while (GetWhileAttacked(piece++));
  EXPECT_EQ(piece, (victim_.extent_bytes() + GetParam() - 1) / GetParam() + 1);
}

TEST_P(LocationAttackInside, AWarmGetThatLooksFirstIsNotDeceived) {
  std::uint64_t piece = 0;
  do {
    Plant();
    network_.Advance(milliseconds(200));
  } while (GetWhileAttacked(piece++));
  EXPECT_GT(piece, (victim_.extent_bytes() + GetParam() - 1) / GetParam() + 1);
}

TEST_P(LocationAttackInside, AColdGetThatLooksFirstLearnsNothingWrong) {
  std::uint64_t piece = 0;
  do {
    Plant();
    reader_ = Connect(std::size_t{1} << 16);
  } while (GetWhileAttacked(piece++));
}

// While a cold GET is in flight, its segment is only emptied: the place of what it found is used again later.
// The GET may learn the place, but not with the number that the segment has by then.
TEST_P(LocationAttackInside, ASegmentIsEmptiedWhileAColdGetLearnsAPlaceInIt) {
  bool emptied = true;
  int in_time = 0;
  for (std::uint64_t before_piece = 0; emptied && !HasFailure(); ++before_piece) {
    Plant();
    network_.Advance(milliseconds(1000));
    reader_ = Connect(std::size_t{1} << 16);
    emptied = false;
    std::uint64_t piece = 0;
    network_.set_piece_size(GetParam());
    network_.set_interference(
        [&] {
          if (piece++ != before_piece) return;
          emptied = true;
          const TimePoint start = network_.clock().Now();
          const std::byte generation = Generation();
          Put(kVictim, "good 2");
          Overwrite([&] { return Generation() != generation; });
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

// Other uses of the segment may lie between the look and the record.
TEST_F(LocationAttack, APlaceThatWasLearnedWithAnOldLookIsGoodUntilTheNext) {
  Plant();
  for (int i = 0; i < 5; ++i) {
    Attack([] {});
    PutVictim("good 2");
    ASSERT_EQ(Get(kVictim), "good 2");
    Put(kVictim, "good 3");
    Attack([] {});
    ASSERT_EQ(Get(kVictim), "good 3");
  }
}

// Everything at random, many times over: writes, attacks without aim, and time that jumps, between READs and
// inside them.
class LocationChaos : public LocationAttack, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, LocationChaos, testing::Range(1, 5));

TEST_P(LocationChaos, NoGetIsEverWrong) {
  reader_ = Connect(std::size_t{1} << 16);
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
  network_.set_interference(
      [&] {
        if (random() % 4 == 0) network_.Advance(milliseconds(random() % 250));
        for (std::uint64_t writes = random() % 4; writes > 0; --writes) write_one();
      },
      /*gap=*/40);
  for (int gets = 0; gets < 1500 && !HasFailure(); ++gets) {
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
  EXPECT_GT(reader_->counters().location_hits, 100u);
  EXPECT_GT(reader_->counters().location_false_hits, 10u);
  EXPECT_GT(server_->store().Read(Metric::kSegmentsCleaned), 50u);
}

}  // namespace
}  // namespace remora
