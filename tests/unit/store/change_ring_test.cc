// The change log of a store in memory: which changes it keeps (R1 to R3 of change_ring.h).
#include "store/changes/change_ring.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/options.h"

namespace remora {
namespace {

using State = ChangeRing::State;

// The smallest ring: a quarter of it holds entries of 32 bytes, and three quarters hold keys and values.
constexpr std::uint64_t kRingEntries = kMinChangeLogBytes / 128;
constexpr std::uint64_t kRingBytes = kMinChangeLogBytes / 4 * 3;

class ChangeRingTest : public testing::Test {
 protected:
  void Put(const std::string& key, const std::string& value) {
    ring_->Append(
        {.kind = ChangeKind::kPut, .version = ++version_, .expiry_ms = 7, .key = key, .value = value});
  }
  /// Returns "key=value" or "-key".
  std::string Line(std::uint64_t number) const {
    std::vector<char> bytes(ring_->SizeOf(number));
    const Change change = ring_->Copy(number, bytes);
    EXPECT_EQ(change.sequence, number);
    if (change.kind == ChangeKind::kDelete) return "-" + std::string(change.key);
    return std::string(change.key) + "=" + std::string(change.value);
  }

  std::unique_ptr<ChangeRing> ring_ = ChangeRing::Create(kMinChangeLogBytes).value();
  std::uint64_t version_ = 0;
};

TEST_F(ChangeRingTest, KeepsWhatWasAppended) {
  EXPECT_EQ(ring_->last(), 0u);
  Put("a", "1");
  ring_->Append({.kind = ChangeKind::kDelete, .key = "a"});
  Put("empty", "");
  ASSERT_EQ(ring_->last(), 3u);
  EXPECT_EQ(Line(1), "a=1");
  EXPECT_EQ(Line(2), "-a");
  EXPECT_EQ(Line(3), "empty=");
  std::vector<char> bytes(2);
  const Change change = ring_->Copy(1, bytes);
  EXPECT_EQ(change.version, 1u);
  EXPECT_EQ(change.expiry_ms, 7u);
}

TEST_F(ChangeRingTest, KeepsAsManyChangesAsItHasEntries) {
  for (std::uint64_t i = 1; i <= kRingEntries; ++i) Put("k", "");
  EXPECT_EQ(ring_->StateOf(1), State::kKept);
  Put("k", "");
  EXPECT_EQ(ring_->StateOf(1), State::kOverwritten);
  EXPECT_EQ(ring_->StateOf(2), State::kKept);
}

TEST_F(ChangeRingTest, KeepsAllBytesThatFit) {
  const std::string half(kRingBytes / 2 - 1, 'h');
  Put("1", half);
  Put("2", half);
  EXPECT_EQ(Line(1), "1=" + half) << "the two fill it";
  Put("3", "");
  EXPECT_EQ(ring_->StateOf(1), State::kOverwritten);
  EXPECT_EQ(Line(2), "2=" + half);
  EXPECT_EQ(Line(3), "3=");
}

TEST_F(ChangeRingTest, KnowsItsOldestChangeAndItsBytes) {
  const auto expect = [this](std::uint64_t begin, std::uint64_t bytes) {
    const ChangeRing::Kept kept = ring_->FindKept();
    EXPECT_EQ(kept.begin, begin);
    EXPECT_EQ(kept.bytes, bytes);
  };
  constexpr std::uint64_t kEntry = 32;
  expect(0, 0);
  Put("1", "one");
  Put("2", "two");
  expect(1, 2 * (kEntry + 4));
  const std::string half(kRingBytes / 2 - 1, 'h');
  Put("3", half);
  expect(1, 3 * kEntry + 8 + half.size() + 1);
  Put("4", half);
  expect(3, 2 * (kEntry + half.size() + 1));
  for (std::uint64_t i = 0; i < 3 * kRingEntries; ++i) Put("k", "");
  expect(ring_->last() - kRingEntries + 1, kRingEntries * (kEntry + 1));
}

// R3.
TEST_F(ChangeRingTest, AChangeThatIsTooLargeDisplacesNoOther) {
  Put("1", "one");
  Put("2", std::string(kRingBytes, 'v'));
  Put("3", "three");
  EXPECT_EQ(Line(1), "1=one");
  EXPECT_EQ(ring_->StateOf(2), State::kTooLarge);
  EXPECT_EQ(Line(3), "3=three");
  Put("4", std::string(kRingBytes - 1, 'v'));
  EXPECT_EQ(Line(4), "4=" + std::string(kRingBytes - 1, 'v'));
  EXPECT_EQ(ring_->StateOf(2), State::kOverwritten);
  EXPECT_EQ(ring_->StateOf(3), State::kOverwritten);
}

// R2, against a model that adds sizes up. The bytes wrap some hundred times, in the middle of keys and
// values.
TEST_F(ChangeRingTest, KeepsExactlyTheLastOnes) {
  std::mt19937 random(1);
  std::vector<std::string> lines = {""};
  std::vector<std::uint64_t> sizes = {0};
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 20; ++i) {
      const std::string key = std::to_string(random());
      const std::string value(random() % 50'000, static_cast<char>('a' + random() % 26));
      Put(key, value);
      lines.push_back(key + "=" + value);
      sizes.push_back(key.size() + value.size());
    }
    std::uint64_t bytes = 0;
    for (std::uint64_t number = ring_->last(); number > 0; --number) {
      bytes += sizes[number];
      ASSERT_EQ(ring_->StateOf(number), bytes <= kRingBytes ? State::kKept : State::kOverwritten) << number;
      if (bytes > kRingBytes) break;
      ASSERT_EQ(Line(number), lines[number]) << number;
    }
  }
}

TEST(ChangeRing, SaysSoIfThereIsNoAddressSpace) {
  const absl::Status status = ChangeRing::Create(std::uint64_t{1} << 62).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("--change_log"), std::string::npos) << status;
}

}  // namespace
}  // namespace remora
