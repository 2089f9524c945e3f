// Threads at one table of frames (client/mirror/mirror_frames.h). To be run under ThreadSanitizer, too
// (tools/check).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "client/mirror/mirror_frames.h"
#include "tests/support/sanitizers.h"

namespace remora {
namespace {

/// A table of frames, and what its threads know.
class MirrorFramesOfThreads : public testing::Test {
 protected:
  static constexpr std::uint64_t kMemory = std::uint64_t{100} * kSegmentSize;
  static constexpr std::uint64_t kSlotsEach = 12;

  /// A slot whose place tells its bucket.
  static std::uint64_t WordOf(std::uint64_t bucket, std::uint64_t i) {
    const std::uint64_t segment = 1 + bucket;
    return EncodeSlot(
        {static_cast<std::uint32_t>(1 + i), ExtentCode(4), segment * kSegmentSize / kUnitSize + i * 4});
  }
  static std::uint64_t BucketOf(std::uint64_t word) {
    return SegmentGenerations::SegmentOf(DecodeSlot(word)) - 1;
  }
  void Refresh() {
    const TimePoint now{std::chrono::seconds(1000)};
    generations_.Take(0, bytes_, now, now);
  }
  bool Fill() {
    std::vector<Bucket> buckets(MirrorFrames::kBuckets);
    for (std::uint64_t bucket = 0; bucket < buckets.size(); ++bucket) {
      for (std::uint64_t i = 0; i < kSlotsEach; ++i) buckets[bucket].slots[i] = WordOf(bucket, i);
    }
    return frames_.Fill({0, buckets, 6}, retired_, generations_);
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(SegmentCount(kMemory));
  SegmentGenerations generations_{kMemory, std::chrono::milliseconds(100)};
  RetiredSegments retired_{kMemory};
  MirrorFrames frames_{std::size_t{1} << 20};
};

// M7: while one thread moves the slots of a frame, another finds those of the bucket that it asks for, or
// none.
TEST_F(MirrorFramesOfThreads, AReaderNeverFindsASlotOfAnotherBucket) {
  Refresh();
  retired_.Take(0, std::vector<std::byte>(SegmentCount(kMemory)), generations_.count());
  ASSERT_TRUE(Fill());
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    while (!is_over) {
      for (std::uint64_t i = 0; i < kSlotsEach; ++i) frames_.Drop(0, WordOf(0, i));
      for (std::uint64_t i = 0; i < kSlotsEach; ++i) {
        frames_.Add(0, WordOf(0, i), MirrorFrames::Same::kKeep, generations_.count(), generations_);
      }
    }
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto enough = static_cast<std::uint64_t>(Rounds(200'000));
  std::uint64_t found = 0, foreign = 0;
  for (std::uint64_t i = 0; found < enough && std::chrono::steady_clock::now() < until && foreign == 0; ++i) {
    const std::uint64_t bucket = 1 + i % (MirrorFrames::kBuckets - 1);
    const auto fingerprint = static_cast<std::uint32_t>(1 + i % kSlotsEach);
    const std::uint64_t word = frames_.Find(bucket, fingerprint, generations_).word;
    if (word == 0) continue;
    ++found;
    foreign += BucketOf(word) == bucket ? 0 : 1;
  }
  is_over = true;
  writer.join();
  EXPECT_EQ(foreign, 0u);
  EXPECT_GT(found, 0u);
}

// M5, M8: a slot that a thread finds has kept its number since its proof, whatever others do to its frame.
TEST_F(MirrorFramesOfThreads, AReaderNeverFindsASlotWithANumberAboveItsProof) {
  Refresh();
  retired_.Take(0, std::vector<std::byte>(SegmentCount(kMemory)), generations_.count());
  ASSERT_TRUE(Fill());
  // A slot in segment 90, whose place tells the count of its proof.
  constexpr std::uint64_t kCounts = 4000, kSlotUnits = 4;
  constexpr std::uint32_t kFingerprint = 100;
  const auto word_of = [](SegmentGenerations::Number proof) {
    const std::uint64_t place = 90 * kSegmentSize / kUnitSize + proof % kCounts * kSlotUnits;
    return EncodeSlot({kFingerprint, ExtentCode(kSlotUnits), place});
  };
  std::atomic<bool> is_over = false;
  std::thread emptier([&] {
    while (!is_over) {
      bytes_[90] = std::byte(std::to_integer<unsigned>(bytes_[90]) + 1);
      Refresh();
      Refresh();
    }
  });
  std::vector<std::thread> adders;
  for (int i = 0; i < 2; ++i) {
    adders.emplace_back([&] {
      while (!is_over) {
        const SegmentGenerations::Number proof = generations_.count();
        frames_.Add(0, word_of(proof), MirrorFrames::Same::kReplace, proof, generations_);
        frames_.Add(0, WordOf(0, 3), MirrorFrames::Same::kReplace, generations_.count(), generations_);
      }
    });
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto enough = static_cast<std::uint64_t>(Rounds(1'000'000));
  std::uint64_t found = 0, wrong = 0;
  while (found < enough && std::chrono::steady_clock::now() < until && wrong == 0) {
    const MirrorFrames::Found slot = frames_.Find(0, kFingerprint, generations_);
    if (slot.word == 0) continue;
    ++found;
    const std::uint64_t units = DecodeSlot(slot.word).offset_units - 90 * kSegmentSize / kUnitSize;
    const std::uint64_t above = (slot.number + kCounts - units / kSlotUnits) % kCounts;
    wrong += above > 0 && above < kCounts / 2 ? 1 : 0;
  }
  is_over = true;
  emptier.join();
  for (std::thread& adder : adders) adder.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(found, 0u);
}

}  // namespace
}  // namespace remora
