#include "store/base/piece_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>
#include <vector>

namespace remora {
namespace {

TEST(PieceRingTest, AllOfItOrNothing) {
  PieceRing ring(1000);  // of which 960 are whole cache lines
  EXPECT_FALSE(ring.Take(961).has_value());
  const auto all = ring.Take(960);
  ASSERT_TRUE(all.has_value());
  EXPECT_FALSE(ring.Take(1).has_value());
  ring.Release(all->number);
  EXPECT_TRUE(ring.Take(960).has_value());
}

TEST(PieceRingTest, APieceIsFreeWhenThoseBeforeItAre) {
  PieceRing ring(256);
  const auto first = ring.Take(64);
  const auto second = ring.Take(128);
  ASSERT_TRUE(first.has_value() && second.has_value());
  ring.Release(second->number);
  EXPECT_FALSE(ring.Take(128).has_value()) << "the first is before it";
  ring.Release(first->number);
  EXPECT_TRUE(ring.Take(256).has_value());
}

TEST(PieceRingTest, IsEmptyWhenAllThatWasTakenIsReleased) {
  PieceRing ring(256);
  EXPECT_TRUE(ring.empty());
  const auto first = ring.Take(64);
  const auto second = ring.Take(64);
  ASSERT_TRUE(first.has_value() && second.has_value());
  ring.Release(second->number);
  EXPECT_FALSE(ring.empty());
  ring.Release(first->number);
  EXPECT_TRUE(ring.empty());
  ASSERT_TRUE(ring.Take(64).has_value());
  ring.Clear();
  EXPECT_TRUE(ring.empty());
}

TEST(PieceRingTest, NoMorePiecesThanItCanName) {
  PieceRing ring(std::size_t{1} << 20);
  std::vector<std::uint32_t> numbers;
  while (const auto piece = ring.Take(1)) numbers.push_back(piece->number);
  EXPECT_EQ(numbers.size(), 64u);
  ring.Release(numbers.front());
  EXPECT_TRUE(ring.Take(1).has_value());
  EXPECT_FALSE(ring.Take(1).has_value());
}

// In any order of takes and releases, no two pieces share a byte, and each request gets its piece in the end.
TEST(PieceRingTest, PiecesNeverOverlap) {
  constexpr std::size_t kCapacity = 4096;
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    PieceRing ring(kCapacity);
    std::vector<int> used(kCapacity, 0);
    struct Taken {
      PieceRing::Piece piece;
      std::size_t size;
    };
    std::deque<Taken> taken;
    int failed_in_a_row = 0;
    for (int i = 0; i < 3000; ++i) {
      const std::size_t size = 1 + random() % (i % 10 == 0 ? kCapacity : 500);
      if (const auto piece = ring.Take(size)) {
        failed_in_a_row = 0;
        ASSERT_EQ(piece->offset % 64, 0u);
        ASSERT_LE(piece->offset + size, kCapacity);
        for (std::size_t at = 0; at < size; ++at) ASSERT_EQ(used[piece->offset + at]++, 0);
        taken.push_back({*piece, size});
      } else {
        ASSERT_LT(++failed_in_a_row, 200);
      }
      if (!taken.empty() && random() % 2 == 0) {
        const auto at = random() % 4 == 0 ? random() % taken.size() : 0;
        const Taken gone = taken[at];
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(at));
        for (std::size_t b = 0; b < gone.size; ++b) --used[gone.piece.offset + b];
        ring.Release(gone.piece.number);
      }
    }
  }
}

}  // namespace
}  // namespace remora
