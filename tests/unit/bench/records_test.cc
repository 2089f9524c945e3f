#include "bench/kvbench/load/records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kvbench/load/random.h"
#include "store/format/memory/layout.h"

namespace remora::bench {
namespace {

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

TEST(Key, SaysItsRecord) {
  for (const KeyOptions& options :
       {KeyOptions(), KeyOptions{.ordered = true}, KeyOptions{.prefix = "", .ordered = true, .digits = 5}}) {
    KeyMaker keys(options);
    for (std::uint64_t record = 0; record < kMaxRecords; record = record * 3 + 1) {
      const std::string key(keys.Make(record));
      EXPECT_EQ(keys.RecordOf(key), record);
      for (const std::string& other : {key + "0", key + " ", "x" + key, std::string()}) {
        EXPECT_NE(keys.RecordOf(other), record) << other;
      }
    }
  }
  EXPECT_EQ(KeyMaker({}).RecordOf("user1"), std::nullopt);  // not the digits that a key has
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

TEST(KeyMaker, MakesTheKeysOfKeyTextUnlessToldOtherwise) {
  KeyMaker keys{KeyOptions()};
  for (std::uint64_t record = 0; record < 1000; ++record) {
    ASSERT_EQ(keys.Make(record), KeyText(record).view());
  }
  EXPECT_EQ(keys.max_size(), kKeySize);
}

TEST(KeyMaker, EachPlaceKeepsItsText) {
  for (const KeyOptions& options : {KeyOptions(), KeyOptions{.ordered = true}}) {
    KeyMaker one(options);
    KeyMaker keys(options, 3);
    std::vector<std::string_view> texts;
    for (std::uint64_t place = 0; place < 3; ++place) texts.push_back(keys.Make(place + 100, place));
    for (std::uint64_t place = 0; place < 3; ++place) EXPECT_EQ(texts[place], one.Make(place + 100));
    EXPECT_EQ(keys.Make(7, 1), one.Make(7));
    EXPECT_EQ(texts[2], one.Make(102));
  }
}

TEST(KeyMaker, OrderedKeysAreTheNumbers) {
  EXPECT_EQ(KeyMaker({.ordered = true}).Make(0), "user0");
  EXPECT_EQ(KeyMaker({.ordered = true}).Make(1234), "user1234");
  EXPECT_EQ(KeyMaker({.ordered = true, .digits = 6}).Make(1234), "user001234");
  EXPECT_EQ(KeyMaker({.ordered = true, .digits = 2}).Make(1234), "user1234");
  EXPECT_EQ(KeyMaker({.prefix = "", .ordered = true}).Make(7), "7");
  EXPECT_EQ(KeyMaker({.prefix = "k:", .ordered = true, .digits = 30}).Make(7).size(), 32u);
}

// A hash's digits are written all at once, and read one after the other.
TEST(KeyMaker, EachDigitIsRight) {
  KeyMaker keys{KeyOptions()};
  Random random(1);
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const std::uint64_t record = i < 100'000 ? i : random.NextBelow(kMaxRecords);
    ASSERT_EQ(keys.RecordOf(std::string(keys.Make(record))), record);
  }
}

TEST(KeyMaker, HashedKeysStayApartWithFewerDigits) {
  KeyMaker keys({.digits = 1});
  std::set<std::string> all;
  for (std::uint64_t record = 0; record < 20'000; ++record) all.emplace(keys.Make(record));
  EXPECT_EQ(all.size(), 20'000u);
}

TEST(FieldLayout, FieldsStandOneBehindTheOther) {
  for (const auto lengths :
       {Fields::Lengths::kConstant, Fields::Lengths::kUniform, Fields::Lengths::kZipfian}) {
    const FieldLayout layout({.count = 10, .length = 100, .lengths = lengths});
    for (std::uint64_t record = 0; record < 100; ++record) {
      std::size_t end = 0;
      for (std::uint64_t field = 0; field < 10; ++field) {
        const FieldLayout::Extent extent = layout.FieldOf(record, field);
        ASSERT_EQ(extent.offset, end);
        ASSERT_GE(extent.size, 1u);
        ASSERT_LE(extent.size, 100u);
        end += extent.size;
      }
      ASSERT_EQ(layout.ValueSize(record), std::max(end, kMinBenchValueSize));
    }
  }
}

TEST(FieldLayout, LengthsAreDrawnAsTheirDistributionSays) {
  const auto counts = [](Fields::Lengths lengths) {
    const FieldLayout layout({.count = 10, .length = 100, .lengths = lengths});
    std::vector<double> of_length(101);
    for (std::uint64_t record = 0; record < 10'000; ++record) {
      for (std::uint64_t field = 0; field < 10; ++field) ++of_length[layout.FieldOf(record, field).size];
    }
    return of_length;
  };
  EXPECT_EQ(counts(Fields::Lengths::kConstant)[100], 100'000);
  // Six standard deviations of what 100,000 draws would give.
  const auto uniform = counts(Fields::Lengths::kUniform);
  for (std::size_t length = 1; length <= 100; ++length) EXPECT_NEAR(uniform[length], 1000, 190) << length;
  const auto zipfian = counts(Fields::Lengths::kZipfian);
  const Zipfian ranks(100);
  EXPECT_NEAR(zipfian[1], 100'000 * ranks.Probability(0), 800);
  EXPECT_NEAR(zipfian[2], 100'000 * ranks.Probability(1), 600);
}

TEST(FieldLayout, AHistogramGivesItsShares) {
  const Fields fields{.count = 2, .lengths = Fields::Lengths::kHistogram, .block = 10, .shares = {1, 1, 4}};
  EXPECT_EQ(fields.longest(), 30u);
  EXPECT_EQ(fields.max_value_size(), 60u);
  const FieldLayout layout(fields);
  std::map<std::size_t, int> drawn;
  for (std::uint64_t record = 0; record < 20'000; ++record) {
    for (const std::uint64_t field : {std::uint64_t{0}, std::uint64_t{1}})
      ++drawn[layout.FieldOf(record, field).size];
  }
  EXPECT_EQ(drawn.size(), 2u) << "none has two blocks";
  EXPECT_NEAR(drawn[10], 10'000, 500);
  EXPECT_NEAR(drawn[30], 30'000, 500);
}

TEST(FieldLayout, LengthsBeginWithTheLeast) {
  for (const auto lengths : {Fields::Lengths::kUniform, Fields::Lengths::kZipfian}) {
    const FieldLayout layout({.count = 1, .least = 91, .length = 100, .lengths = lengths});
    std::vector<double> of_length(101);
    for (std::uint64_t record = 0; record < 100'000; ++record) ++of_length.at(layout.ValueSize(record));
    for (std::size_t length = 0; length < 91; ++length) EXPECT_EQ(of_length[length], 0) << length;
    // Six standard deviations; Gray's algorithm is exact for the first two ranks.
    const Zipfian ranks(10);
    for (std::size_t rank = 0; rank < (lengths == Fields::Lengths::kUniform ? 10u : 2u); ++rank) {
      const double share = lengths == Fields::Lengths::kUniform ? 0.1 : ranks.Probability(rank);
      EXPECT_NEAR(of_length[91 + rank], 100'000 * share, 6 * std::sqrt(100'000 * share * (1 - share)));
    }
    EXPECT_GT(of_length[100], 0);
  }
}

TEST(FieldLayout, OneLengthAndTwoAreDistributionsToo) {
  for (const auto lengths : {Fields::Lengths::kUniform, Fields::Lengths::kZipfian}) {
    const FieldLayout one({.count = 1, .least = 40, .length = 40, .lengths = lengths});
    const FieldLayout two({.count = 1, .least = 40, .length = 41, .lengths = lengths});
    std::set<std::size_t> seen;
    for (std::uint64_t record = 0; record < 1000; ++record) {
      EXPECT_EQ(one.ValueSize(record), 40u);
      seen.insert(two.ValueSize(record));
    }
    EXPECT_EQ(seen, (std::set<std::size_t>{40, 41}));
  }
}

TEST(FieldLayout, TheLargestValueThatTheStoreTakesCanBeDrawn) {
  const FieldLayout layout(
      {.count = 1, .least = kMaxValueSize, .length = kMaxValueSize, .lengths = Fields::Lengths::kZipfian});
  EXPECT_EQ(layout.ValueSize(7), kMaxValueSize);
}

TEST(Value, OneFieldIsReplacedAndTheOthersStay) {
  for (const auto lengths : {Fields::Lengths::kConstant, Fields::Lengths::kUniform}) {
    const Fields fields{.count = 5, .length = 40, .lengths = lengths};
    const FieldLayout layout(fields);
    ValueMaker maker(fields);
    for (std::uint64_t field = 0; field < 5; ++field) {
      const std::string before(maker.Make(7, 1));
      std::string after = before;
      ASSERT_TRUE(maker.ReplaceField(7, field, 2, &after));
      EXPECT_TRUE(ValueBelongsTo(after, 7));
      ASSERT_EQ(after.size(), before.size());
      const FieldLayout::Extent extent = layout.FieldOf(7, field);
      std::size_t changed = 0;
      for (std::size_t i = kMinBenchValueSize; i < before.size(); ++i) {
        const bool inside = i >= extent.offset && i < extent.offset + extent.size;
        if (!inside) {
          ASSERT_EQ(after[i], before[i]) << i;
        }
        changed += after[i] != before[i];
      }
      // The first field may lie where the header is.
      if (field > 0) {
        EXPECT_GT(changed, 0u);
      }
    }
  }
}

TEST(Value, AFieldOfAValueOfAnotherSizeIsNotReplaced) {
  ValueMaker maker({.count = 5, .length = 40});
  std::string value(ValueMaker(64).Make(7, 1));
  const std::string before = value;
  EXPECT_FALSE(maker.ReplaceField(7, 0, 2, &value));
  EXPECT_EQ(value, before);
}

TEST(Value, ShortFieldsStillMakeAValueThatCanBeChecked) {
  const Fields fields{.count = 4, .length = 4, .lengths = Fields::Lengths::kUniform};
  ValueMaker maker(fields);
  for (std::uint64_t record = 0; record < 100; ++record) {
    std::string value(maker.Make(record, 1));
    EXPECT_EQ(value.size(), kMinBenchValueSize);
    ASSERT_TRUE(maker.ReplaceField(record, 3, 2, &value));
    EXPECT_TRUE(ValueBelongsTo(value, record));
  }
}

}  // namespace
}  // namespace remora::bench
