// Scans and counts of clients, of a server that has an ordered index: only in memory, or with a disk.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/scans_fixture.h"

namespace remora {
namespace {

class OrderedScans : public Scans {};
INSTANTIATE_TEST_SUITE_P(On, OrderedScans, testing::ValuesIn(ClientsOfOrderedIndex()), NameOfScanned);

// Another client overwrites, at least twice over, as much as the server keeps for the moments of scans.
TEST_P(OrderedScans, MoreWritesThanTheServerKeepsGoOnAsOfALaterMoment) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(300, 2000);
  const auto any = Begin();
  const auto strict = Begin({.one_moment = true});
  ASSERT_TRUE(any->Next());
  ASSERT_TRUE(strict->Next());
  const std::unique_ptr<KeyValue> other = Connect();
  for (int i = 100; i < 300; ++i) ASSERT_CODE(kOk, other->Put(KeyOf(i), "later"));
  ASSERT_CODE(kOk, other->Put(KeyOf(300), "later"));
  const Pairs rest = Rest(*any);
  ASSERT_EQ(rest.size(), 300u) << "each key once";
  for (std::size_t i = 0; i < rest.size(); ++i) {
    ASSERT_EQ(rest[i].first, KeyOf(static_cast<int>(i) + 1));
    ASSERT_TRUE(rest[i].second == "later" || rest[i].second == pairs[i + 1].second);
  }
  EXPECT_EQ(rest.back().second, "later");
  while (strict->Next()) {
  }
  EXPECT_CODE(kAborted, strict->status());
  EXPECT_EQ(All().size(), 301u);
}

TEST_P(OrderedScans, ACountOfManyKeysIsOneRequest) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  Fill(5000, 1);
  const std::uint64_t before = kv_->client()->counters().requests;
  EXPECT_EQ(kv_->Count({.begin = KeyOf(100), .end = KeyOf(4100)}).value(), 4000u);
  EXPECT_EQ(kv_->client()->counters().requests - before, 1u);
}

}  // namespace
}  // namespace remora
