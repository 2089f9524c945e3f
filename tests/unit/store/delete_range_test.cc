// Range deletions of a store.
#include "store/delete_range.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "scan_fixture.h"
#include "store/scan.h"
#include "store/server_store.h"

namespace remora {
namespace {

/// The parameter is the size of the commit log; nullopt: the store is only in memory.
class DropTest : public ScanFixture, public testing::WithParamInterface<std::optional<std::uint64_t>> {
 protected:
  DropTest() : ScanFixture(GetParam().value_or(0)) {}
  bool is_logged() const { return GetParam().has_value(); }
  StoreOptions Options() {
    if (is_logged()) return Logged();
    return {.memory_size = std::size_t{16} << 20};
  }
};
INSTANTIATE_TEST_SUITE_P(With, DropTest, testing::Values(std::nullopt, 0, kSomeCommitLog));

TEST_P(DropTest, AllIsGoneAndComesBackOnlyIfWritten) {
  Open(Options());
  for (int i = 0; i < 20'000; ++i) ASSERT_NO_FATAL_FAILURE(Put("key " + std::to_string(i), "value"));
  EXPECT_EQ(store_->DeleteAll().value(), 20'000u);
  EXPECT_EQ(store_->Count().value(), 0u);
  for (int i = 0; i < 20'000; i += 17) ASSERT_EQ(Get("key " + std::to_string(i)), "NOT_FOUND");
  ASSERT_NO_FATAL_FAILURE(Put("key 1", "again"));
  if (is_logged()) {
    Open(Options());
    EXPECT_EQ(store_->Count(RangeOptions{}).value(), 1u);
    EXPECT_EQ(Get("key 1"), "again");
  }
  EXPECT_EQ(Get("key 1"), "again");
  EXPECT_EQ(store_->DeleteAll().value(), 1u);
}

TEST_P(DropTest, ARangeIsGoneAndNothingElse) {
  Open(Options());
  for (char a = 'a'; a <= 'z'; ++a) {
    for (int i = 0; i < 50; ++i) ASSERT_NO_FATAL_FAILURE(Put(a + std::to_string(i), "value"));
  }
  EXPECT_EQ(store_->DeleteRange({.prefix = "k"}).value(), 50u);
  EXPECT_EQ(store_->DeleteRange({.begin = "x", .end = "y"}).value(), 50u);
  EXPECT_EQ(store_->DeleteRange({.begin = "b", .end = "a"}).value(), 0u);
  for (char a = 'a'; a <= 'z'; ++a) {
    EXPECT_EQ(Get(std::string(1, a) + "7"), a == 'k' || a == 'x' ? "NOT_FOUND" : "value");
  }
  EXPECT_EQ(store_->Count().value(), 24u * 50);
}

TEST_P(DropTest, KeysWrittenDuringADeletionStay) {
  Open(Options());
  for (int i = 0; i < 3000; ++i) ASSERT_NO_FATAL_FAILURE(Put("key " + std::to_string(i), "old"));
  const std::unique_ptr<RangeDeletion> deletion = *store_->BeginDeleteRange({});
  for (int i = 0; i < 3000; i += 3) ASSERT_NO_FATAL_FAILURE(Put("key " + std::to_string(i), "new"));
  // So many puts that the index grows between two steps.
  int more = 0;
  for (absl::StatusOr<bool> any = true; any.ok() && *any; any = deletion->Step()) {
    for (const int last = more + 2000; more < last; ++more) {
      ASSERT_NO_FATAL_FAILURE(Put("more " + std::to_string(more), "new"));
    }
  }
  EXPECT_EQ(deletion->deleted(), 2000u);
  EXPECT_EQ(store_->Count().value(), 1000u + static_cast<std::uint64_t>(more));
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(Get("key " + std::to_string(i)), i % 3 == 0 ? "new" : "NOT_FOUND") << i;
  }
  for (int i = 0; i < more; ++i) ASSERT_EQ(Get("more " + std::to_string(i)), "new");
}

TEST_P(DropTest, ExpiredKeysAreNotCounted) {
  Open(Options());
  for (int i = 0; i < 100; ++i) {
    ASSERT_NO_FATAL_FAILURE(Put(std::to_string(i), "v", {.ttl = std::chrono::minutes(i % 2 == 0 ? 1 : 10)}));
  }
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_EQ(store_->DeleteAll().value(), 50u);
}

TEST_P(DropTest, ColdKeysAndLargeValuesGoToo) {
  StoreOptions options = Options();
  options.memory_size = std::size_t{32} << 20;
  Open(options);
  for (int i = 0; i < 1200; ++i)
    ASSERT_NO_FATAL_FAILURE(Put("key " + std::to_string(i), std::string(50'000, 'v')));
  ASSERT_NO_FATAL_FAILURE(Put("large", std::string(5'000'000, 'v')));
  const std::uint64_t count = store_->Count().value();
  EXPECT_EQ(count, is_logged() ? 1201u : count);
  EXPECT_EQ(store_->DeleteAll().value(), count);
  EXPECT_EQ(store_->Count().value(), 0u);
  EXPECT_EQ(Get("large"), "NOT_FOUND");
  EXPECT_EQ(Get("key 0"), "NOT_FOUND");
}

}  // namespace
}  // namespace remora
