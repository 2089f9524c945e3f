// Conditions, increments and appends inside one group: each is decided given all writes before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using testing::ElementsAre;

Write WriteOf(Write::Kind kind, std::string_view key, std::string_view value, Condition condition = {}) {
  Write write;
  write.kind = kind;
  write.key = key;
  write.value = value;
  write.condition = condition;
  return write;
}

Write PutIf(std::string_view key, std::string_view value, Condition condition) {
  return WriteOf(Write::Kind::kPut, key, value, condition);
}

class ConditionsTest : public testing::TestWithParam<Durability> {
 protected:
  TempDir temp_;
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_ = Open();

  std::unique_ptr<ServerStore> Open() {
    StoreOptions options;
    if (GetParam() == Durability::kLogged) options = LoggedIn(temp_ / "store", kMinMemorySize);
    options.memory_size = kMinMemorySize;
    options.clock = &clock_;
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::vector<absl::StatusCode> Commit(std::vector<Write> writes) {
    store_->Commit(writes);
    std::vector<absl::StatusCode> codes;
    results_.clear();
    versions_.clear();
    for (const Write& write : writes) {
      codes.push_back(write.status.code());
      results_.push_back(write.result);
      versions_.push_back(write.version);
    }
    return codes;
  }
  std::string Get(std::string_view key) const {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }

  std::vector<std::int64_t> results_;
  std::vector<std::uint64_t> versions_;
  static constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
  static constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
  static constexpr absl::StatusCode kAlreadyExists = absl::StatusCode::kAlreadyExists;
  static constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
};
INSTANTIATE_TEST_SUITE_P(With, ConditionsTest, testing::Values(Durability::kMemory, Durability::kLogged));

TEST_P(ConditionsTest, OfTwoThatWantTheKeyAbsentTheFirstHasIt) {
  EXPECT_THAT(Commit({PutIf("a", "1", Condition::Absent()), PutIf("a", "2", Condition::Absent()),
                      WriteOf(Write::Kind::kDelete, "a", ""), PutIf("a", "3", Condition::Absent()),
                      PutIf("b", "4", Condition::Present())}),
              ElementsAre(kOk, kAlreadyExists, kOk, kOk, kNotFound));
  EXPECT_EQ(Get("a"), "3");
  EXPECT_EQ(Get("b"), "NOT_FOUND");
}

TEST_P(ConditionsTest, AVersionIsThatOfTheWriteBeforeInTheGroup) {
  ASSERT_THAT(Commit({PutIf("a", "1", {})}), ElementsAre(kOk));
  const Condition first = Condition::Version(versions_[0]);
  const Condition second = Condition::Version(versions_[0] + 1);
  // The version of the next write is known in advance, because no other write comes in between.
  EXPECT_THAT(
      Commit({PutIf("a", "2", first), PutIf("a", "3", first), PutIf("a", "4", second),
              WriteOf(Write::Kind::kTouch, "a", "", second), WriteOf(Write::Kind::kDelete, "a", "", second)}),
      ElementsAre(kOk, kFailedPrecondition, kOk, kFailedPrecondition, kFailedPrecondition));
  EXPECT_EQ(versions_[0], second.version());
  EXPECT_EQ(versions_[2], second.version() + 1) << "what was not done has no version";
  EXPECT_EQ(Get("a"), "4");
}

TEST_P(ConditionsTest, AnExpiredKeyIsAbsent) {
  ASSERT_TRUE(store_->Put("a", "1", {.ttl = std::chrono::seconds(1)}).ok());
  ASSERT_TRUE(store_->Put("b", "5", {.ttl = std::chrono::seconds(1)}).ok());
  std::uint64_t version = 0;
  std::string value;
  ASSERT_TRUE(store_->Get("a", &value, &version).ok());
  clock_.Advance(std::chrono::seconds(1));
  const std::int64_t one = 1;
  const std::string_view delta(reinterpret_cast<const char*>(&one), sizeof(one));
  EXPECT_THAT(Commit({PutIf("a", "2", Condition::Present()), PutIf("a", "3", Condition::Version(version)),
                      PutIf("a", "4", Condition::Absent()), WriteOf(Write::Kind::kIncrement, "b", delta)}),
              ElementsAre(kNotFound, kNotFound, kOk, kOk));
  EXPECT_EQ(Get("a"), "4");
  EXPECT_EQ(Get("b"), "1");
}

TEST_P(ConditionsTest, ValuesGrowInsideAGroup) {
  const std::int64_t seven = 7;
  const std::string_view delta(reinterpret_cast<const char*>(&seven), sizeof(seven));
  EXPECT_THAT(Commit({WriteOf(Write::Kind::kIncrement, "n", delta), WriteOf(Write::Kind::kAppend, "n", "0"),
                      WriteOf(Write::Kind::kIncrement, "n", delta), WriteOf(Write::Kind::kAppend, "n", "x"),
                      WriteOf(Write::Kind::kIncrement, "n", delta), WriteOf(Write::Kind::kTouch, "n", "")}),
              ElementsAre(kOk, kOk, kOk, kOk, kFailedPrecondition, kOk));
  EXPECT_THAT(results_, ElementsAre(7, 2, 77, 3, 0, 0));
  EXPECT_EQ(Get("n"), "77x");
}

TEST_P(ConditionsTest, ARejectedWriteLeavesNothing) {
  ASSERT_THAT(Commit({PutIf("a", "text", {})}), ElementsAre(kOk));
  const std::uint64_t used = store_->Read(Metric::kLogBytesUsed);
  const std::uint64_t version = store_->Read(Metric::kLastVersion);
  const std::string large(100'000, 'v');
  const std::string largest(kMaxSmallValueSize, 'v');
  EXPECT_THAT(
      Commit({PutIf("a", large, Condition::Absent()), PutIf("b", large, Condition::Present()),
              PutIf("a", large, Condition::Version(version + 1)), PutIf("a", large, Condition::Version(0)),
              WriteOf(Write::Kind::kIncrement, "a", large), WriteOf(Write::Kind::kIncrement, "a", "12345678"),
              WriteOf(Write::Kind::kAppend, "a", largest)}),
      ElementsAre(kAlreadyExists, kNotFound, kFailedPrecondition, absl::StatusCode::kInvalidArgument,
                  absl::StatusCode::kInvalidArgument, kFailedPrecondition, absl::StatusCode::kOutOfRange));
  EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), used) << "a place was not given back";
  EXPECT_EQ(store_->Read(Metric::kLastVersion), version);
  EXPECT_EQ(store_->Read(Metric::kKeys), 1u);
  EXPECT_EQ(Get("a"), "text");
}

}  // namespace
}  // namespace remora
