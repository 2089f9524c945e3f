#include "bench/kvbench/load/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "bench/kvbench/load/properties.h"

namespace remora::bench {
namespace {

using ::testing::HasSubstr;

/// kvbench's own settings with a core workload's.
Workload Core(const char* letter, RequestDistribution::Kind kind, std::uint64_t records = 1000) {
  Workload workload;
  const auto properties = CoreWorkload(letter);
  EXPECT_TRUE(properties.ok());
  for (const Property& property : *properties) EXPECT_TRUE(Apply(property, &workload).ok());
  workload.distribution.kind = kind;
  workload.records = records;
  return workload;
}

using Kind = RequestDistribution::Kind;

TEST(Steps, KindsComeInTheMixThatWasAskedFor) {
  for (const char* letter : {"a", "b", "c", "d", "e", "f"}) {
    const Workload workload = Core(letter, Kind::kUniform);
    ASSERT_TRUE(Validate(workload).ok());
    constexpr int kSteps = 100'000;
    Steps steps(workload, kSteps, Random(1));
    std::array<double, kOperationKinds> seen{};
    for (int i = 0; i < kSteps; ++i) {
      const Step step = steps.Next();
      ASSERT_LT(step.drawn, 1000u);
      ++seen[static_cast<std::size_t>(step.kind)];
    }
    const Mix& mix = workload.mix;
    const double shares[] = {mix.insert, mix.read, mix.update, mix.read_modify_write, mix.scan};
    for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
      const double share = shares[kind];
      EXPECT_NEAR(seen[kind], kSteps * share, 6 * std::sqrt(kSteps * share * (1 - share)))
          << letter << kOperationNames[kind];
    }
  }
}

TEST(Steps, BeginAgainWhenTheyEnd) {
  Steps steps(Core("a", Kind::kUniform), 3, Random(1));
  const Step first = steps.Next();
  steps.Next();
  steps.Next();
  const Step again = steps.Next();
  EXPECT_EQ(again.drawn, first.drawn);
  EXPECT_EQ(again.kind, first.kind);
}

TEST(Steps, ManyThreadsDrawFewerEach) {
  constexpr std::uint32_t kWorkers = 512;
  constexpr std::size_t kDrawn = Steps::kMaxDrawnByAll / kWorkers;
  Steps steps(Core("c", Kind::kUniform), 3 * kDrawn, Random(1), 0, kWorkers);
  std::vector<std::uint64_t> first;
  for (std::size_t i = 0; i < kDrawn; ++i) first.push_back(steps.Next().drawn);
  for (std::size_t i = 0; i < kDrawn; ++i) ASSERT_EQ(steps.Next().drawn, first[i]) << i;
}

TEST(Steps, SameSeedSameSteps) {
  const Workload workload = Core("a", Kind::kZipfian);
  Steps one(workload, 1000, Random(9));
  Steps same(workload, 1000, Random(9));
  Steps other(workload, 1000, Random(10));
  int differing = 0;
  for (int i = 0; i < 1000; ++i) {
    const Step step = one.Next();
    EXPECT_EQ(step.drawn, same.Next().drawn);
    differing += step.drawn != other.Next().drawn;
  }
  EXPECT_GT(differing, 500);
}

TEST(Steps, SequentialTakesEachRecordOnceAndBeginsAgain) {
  const Workload workload = Core("c", Kind::kSequential, 100);
  // Fewer are drawn than there are records: the sequence does not begin again with them.
  Steps first(workload, 10, Random(1), 0, 2);
  Steps second(workload, 10, Random(2), 1, 2);
  for (int round = 0; round < 2; ++round) {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 50; ++i) {
      seen.insert(first.Next().drawn);
      seen.insert(second.Next().drawn);
    }
    EXPECT_EQ(seen.size(), 100u);
    EXPECT_EQ(*seen.rbegin(), 99u);
  }
}

TEST(Validate, SaysWhatIsWrong) {
  const auto message = [](auto change) {
    Workload workload;
    change(workload);
    const absl::Status status = Validate(workload);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_EQ(message([](Workload&) {}), "");
  EXPECT_THAT(message([](Workload& w) { w.mix.read = 1; }), HasSubstr("add up to 1.05"));
  const Mix scans = {.read = 0.05, .update = 0, .scan = 0.95};
  EXPECT_EQ(message([&](Workload& w) { w.mix = scans; }), "");
  EXPECT_THAT(message([&](Workload& w) {
                w.mix = scans;
                w.depth = 2;
              }),
              HasSubstr("depth is 1"));
  EXPECT_THAT(message([&](Workload& w) {
                w.mix = scans;
                w.scan_lengths = {.least = 5, .most = 4};
              }),
              HasSubstr("minscanlength=5"));
  EXPECT_THAT(message([&](Workload& w) {
                w.mix = scans;
                w.scan_lengths = {.least = 1, .most = 2, .zipfian = true};
              }),
              HasSubstr("three lengths"));
  EXPECT_THAT(message([](Workload& w) { w.first_record = w.records; }), HasSubstr("insertstart"));
  EXPECT_THAT(message([](Workload& w) {
                w.first_record = 10;
                w.insert_count = w.records - 9;
              }),
              HasSubstr("insertcount"));
  EXPECT_EQ(message([](Workload& w) {
              w.first_record = 10;
              w.insert_count = w.records - 10;
            }),
            "");
  EXPECT_THAT(message([](Workload& w) { w.fields = {.count = 3, .length = 5}; }),
              HasSubstr("16 to 67108864"));
  EXPECT_THAT(message([](Workload& w) { w.fields = {.count = 1 << 20, .length = 65}; }),
              HasSubstr("fieldcount"));
  EXPECT_THAT(message([](Workload& w) {
                w.fields = {.least = 65, .length = 64, .lengths = Fields::Lengths::kUniform};
              }),
              HasSubstr("minfieldlength=65 is more than fieldlength=64"));
  EXPECT_THAT(message([](Workload& w) { w.fields = {.least = 2, .length = 64}; }),
              HasSubstr("minfieldlength=2 needs fieldlengthdistribution=uniform or zipfian"));
  EXPECT_EQ(message([](Workload& w) {
              w.fields = {.least = 64, .length = kMaxValueSize, .lengths = Fields::Lengths::kZipfian};
            }),
            "");
  EXPECT_THAT(message([](Workload& w) { w.keys.prefix = std::string(4090, 'k'); }), HasSubstr("keyprefix"));
}

TEST(Validate, ALoadScansNothing) {
  Workload workload = Core("e", Kind::kUniform);
  workload.depth = 16;
  EXPECT_TRUE(Validate(workload, /*runs=*/false).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Validate(workload, /*runs=*/true)));
  workload.scan_lengths = {.least = 5, .most = 4};
  EXPECT_TRUE(absl::IsInvalidArgument(Validate(workload, /*runs=*/false)));
}

}  // namespace
}  // namespace remora::bench
