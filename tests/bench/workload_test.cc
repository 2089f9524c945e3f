#include "bench/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "bench/distribution.h"

namespace remora::bench {
namespace {

TEST(Mix, NamesAreThoseOfYcsb) {
  EXPECT_EQ(ParseMix("a")->read_percent, 50u);
  EXPECT_EQ(ParseMix("B")->read_percent, 95u);
  EXPECT_EQ(ParseMix("c")->read_percent, 100u);
  EXPECT_EQ(ParseMix("e").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(KeyText, IsOfOneSizeAndPrintable) {
  for (const std::uint64_t record : {std::uint64_t{0}, std::uint64_t{1}, kMaxRecords - 1}) {
    const KeyText key(record);
    EXPECT_EQ(key.view().size(), kKeySize);
    EXPECT_EQ(key.view().substr(0, 4), "user");
    EXPECT_EQ(key.view().find_first_not_of("0123456789", 4), std::string_view::npos);
  }
}

TEST(KeyText, RecordsHaveKeysOfTheirOwnInNoOrder) {
  std::set<std::string> keys;
  int ascending = 0;
  for (std::uint64_t record = 0; record < 20'000; ++record) {
    keys.emplace(KeyText(record).view());
    ascending += KeyText(record).view() < KeyText(record + 1).view();
  }
  EXPECT_EQ(keys.size(), 20'000u);
  EXPECT_NEAR(ascending, 10'000, 1'000);
}

TEST(Value, BelongsToItsRecordAlone) {
  for (const std::size_t size : {kMinBenchValueSize, std::size_t{17}, std::size_t{64}, std::size_t{4096}}) {
    ValueMaker maker(size);
    const std::string_view value = maker.Make(7, 1);
    EXPECT_EQ(value.size(), size);
    EXPECT_TRUE(ValueBelongsTo(value, 7));
    EXPECT_FALSE(ValueBelongsTo(value, 8));
  }
}

TEST(Value, EachChangedBitIsNoticed) {
  ValueMaker maker(40);
  std::string value(maker.Make(7, 1));
  for (std::size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(ValueBelongsTo(value, 7)) << bit;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
  }
  EXPECT_TRUE(ValueBelongsTo(value, 7));
}

TEST(Value, AMixtureOfTwoWritesIsNoticed) {
  ValueMaker maker(1024);
  const std::string first(maker.Make(7, 1));
  const std::string second(maker.Make(7, 2));
  EXPECT_NE(first, second);
  for (std::size_t cut = 1; cut < first.size(); ++cut) {
    EXPECT_FALSE(ValueBelongsTo(first.substr(0, cut) + second.substr(cut), 7)) << cut;
  }
}

TEST(Value, TooShortOneIsNoticed) {
  ValueMaker maker(64);
  const std::string value(maker.Make(7, 1));
  EXPECT_FALSE(ValueBelongsTo(value.substr(0, 63), 7));
  EXPECT_FALSE(ValueBelongsTo("", 7));
}

TEST(Steps, KindsComeInTheMixThatWasAskedFor) {
  const RecordChooser chooser(RecordChooser::Kind::kUniform, 1000);
  for (const char* name : {"a", "b", "c"}) {
    const Mix mix = *ParseMix(name);
    constexpr int kSteps = 100'000;
    Steps steps(mix, chooser, kSteps, Random(1));
    int reads = 0;
    for (int i = 0; i < kSteps; ++i) {
      const Step step = steps.Next();
      ASSERT_LT(step.record, 1000u);
      ASSERT_NE(step.kind, OperationKind::kInsert);
      reads += step.kind == OperationKind::kRead;
    }
    const double share = mix.read_percent / 100.0;
    EXPECT_NEAR(reads, kSteps * share, 6 * std::sqrt(kSteps * share * (1 - share))) << name;
  }
}

TEST(Steps, BeginAgainWhenTheyEnd) {
  const RecordChooser chooser(RecordChooser::Kind::kUniform, 1000);
  Steps steps(*ParseMix("a"), chooser, 3, Random(1));
  const Step first = steps.Next();
  steps.Next();
  steps.Next();
  const Step again = steps.Next();
  EXPECT_EQ(again.record, first.record);
  EXPECT_EQ(again.kind, first.kind);
}

TEST(Steps, SameSeedSameSteps) {
  const RecordChooser chooser(RecordChooser::Kind::kZipfian, 1000);
  Steps one(*ParseMix("a"), chooser, 1000, Random(9));
  Steps same(*ParseMix("a"), chooser, 1000, Random(9));
  Steps other(*ParseMix("a"), chooser, 1000, Random(10));
  int differing = 0;
  for (int i = 0; i < 1000; ++i) {
    const Step step = one.Next();
    EXPECT_EQ(step.record, same.Next().record);
    differing += step.record != other.Next().record;
  }
  EXPECT_GT(differing, 500);
}

}  // namespace
}  // namespace remora::bench
