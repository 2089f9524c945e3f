// Loads of more records than the memory holds, while the store serves. The records that do not fit are cold
// from the start, and a cold entry has only a hash (store/recovery/index_loader.h, L1 and L2).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "patient_writes.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"
#include "twin_keys.h"

namespace remora {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// In the order of keys, kFirstTwin comes in the first third of the other keys, and kSecondTwin in the last
// third.
class LoadLargerTest : public testing::Test {
 protected:
  static constexpr int kKeys = 4000;
  static constexpr std::size_t kValueSize = 16'000;  // all values together take 4 times the memory

  explicit LoadLargerTest(unsigned seed = 1) : random_(seed) {
    options_ = LoggedIn(temp_ / "store", kMinMemorySize);
    options_.grace = milliseconds(kMinGraceMs);
    options_.clock = &clock_;
    for (char& byte : bytes_) byte = static_cast<char>(random_());
  }

  void Open(Loading loading) {
    store_.reset();
    options_.loading = loading;
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void LoadAll() {
    while (store_->Load()) clock_.Advance(milliseconds(1));
    ASSERT_FALSE(store_->loading()) << store_->load_status();
  }

  static std::string Key(int i) { return "twin " + std::to_string(100'000'000 + i * 25'000); }
  std::string Value(const std::string& key, std::size_t size = kValueSize) {
    return key + bytes_.substr(random_() % (bytes_.size() - size), size);
  }

  absl::Status Do(Write write) { return CommitPatiently(*store_, clock_, write); }
  absl::Status Put(const std::string& key, const std::string& value, milliseconds ttl = kNeverExpires) {
    Write write;
    write.key = key;
    write.value = value;
    write.ttl = ttl;
    return Do(write);
  }
  absl::Status Delete(const std::string& key) {
    Write write;
    write.kind = Write::Kind::kDelete;
    write.key = key;
    return Do(write);
  }
  absl::Status Touch(const std::string& key, milliseconds ttl) {
    Write write;
    write.kind = Write::Kind::kTouch;
    write.key = key;
    write.ttl = ttl;
    return Do(write);
  }
  /// Returns the value, or the name of the status that Get returned.
  std::string Get(const std::string& key) { return GetPatiently(*store_, clock_, key); }
  /// Returns whether Get finds the stored value, and promotes the key for it.
  bool IsFetched(const std::string& key) {
    const std::uint64_t before = store_->Read(Metric::kFetches);
    const bool there = Get(key) == stored_.at(key);
    return there && store_->Read(Metric::kFetches) > before;
  }

  void Fill() {
    ASSERT_NO_FATAL_FAILURE(Open(Loading::kInOpen));
    for (int i = 0; i < kKeys; ++i) stored_[Key(i)] = Value(Key(i));
    stored_[kFirstTwin] = Value(kFirstTwin);
    stored_[kSecondTwin] = Value(kSecondTwin);
    for (const auto& [key, value] : stored_) ASSERT_TRUE(Put(key, value).ok());
  }
  /// Promotes so many keys that all other records are evicted.
  void Scan() {
    for (int i = 0; i < kKeys / 2; ++i) ASSERT_EQ(Get(Key(i)), stored_.at(Key(i)));
  }
  void ExpectStored() {
    EXPECT_EQ(store_->Read(Metric::kKeys), stored_.size());
    for (const auto& [key, value] : stored_) ASSERT_EQ(Get(key), value) << key;
    EXPECT_EQ(store_->Read(Metric::kKeys), stored_.size());
  }

  TempDir temp_;
  ManualClock clock_;
  StoreOptions options_;
  std::mt19937_64 random_;
  std::string bytes_ = std::string(1 << 20, '\0');
  std::map<std::string, std::string> stored_;
  std::unique_ptr<ServerStore> store_;
};

TEST_F(LoadLargerTest, KeysThatDoNotFitAreLoadedCold) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  for (const Loading loading : {Loading::kInOpen, Loading::kInSteps}) {
    ASSERT_NO_FATAL_FAILURE(Open(loading));
    ASSERT_NO_FATAL_FAILURE(LoadAll());
    EXPECT_EQ(store_->Read(Metric::kKeysLoaded), stored_.size());
    EXPECT_EQ(store_->Read(Metric::kEvictions), 0u);
    EXPECT_GT(store_->Read(Metric::kColdKeys), stored_.size() / 2);
    EXPECT_LT(store_->Read(Metric::kColdKeys), stored_.size() * 9 / 10);
    EXPECT_GE(store_->Read(Metric::kMemoryBytesFree), 3 * kSegmentSize) << "what a store likes to have free";
    ASSERT_NO_FATAL_FAILURE(ExpectStored());
  }
}

TEST_F(LoadLargerTest, LargeOnesAreColdWhereThereIsNoRunForThem) {
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInOpen));
  for (int i = 0; i < 40; ++i) {
    stored_[Key(i)] = Value(Key(i), i % 3 == 0 ? 1000 : 500'000 + static_cast<std::size_t>(i) * 10'000);
    ASSERT_TRUE(Put(Key(i), stored_[Key(i)]).ok());
  }
  for (const Loading loading : {Loading::kInOpen, Loading::kInSteps}) {
    ASSERT_NO_FATAL_FAILURE(Open(loading));
    ASSERT_NO_FATAL_FAILURE(LoadAll());
    EXPECT_EQ(store_->Read(Metric::kEvictions), 0u);
    EXPECT_GT(store_->Read(Metric::kColdKeys), 10u);
    // How many large records find a run depends on the free memory at their time.
    EXPECT_LE(store_->Read(Metric::kColdKeys), 26u) << "small ones are cold, too";
    ASSERT_NO_FATAL_FAILURE(ExpectStored());
  }
}

TEST_F(LoadLargerTest, AKeyThatWasLoadedColdExpires) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  for (int i = 0; i < kKeys; i += 2) {
    ASSERT_TRUE(Touch(Key(i), i % 4 == 0 ? hours(1) : hours(1000)).ok());
    if (i % 4 == 0) stored_.erase(Key(i));
  }
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
  ASSERT_NO_FATAL_FAILURE(LoadAll());
  EXPECT_EQ(store_->Read(Metric::kKeys), kKeys + 2u);
  clock_.Advance(hours(2));
  while (store_->RunMaintenance()) {
  }
  EXPECT_EQ(store_->Read(Metric::kExpired), kKeys / 4u);
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

TEST_F(LoadLargerTest, ColdKeysAreSweptWhileOthersAreNotLoadedYet) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_TRUE(Touch(kFirstTwin, hours(1)).ok());
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
  ASSERT_TRUE(IsFetched(kFirstTwin));
  ASSERT_NO_FATAL_FAILURE(Scan());
  stored_.erase(kFirstTwin);
  clock_.Advance(hours(2));
  while (store_->RunMaintenance()) {
  }
  EXPECT_TRUE(store_->loading());
  EXPECT_EQ(store_->Read(Metric::kExpired), 1u);
  ASSERT_NO_FATAL_FAILURE(LoadAll());
  EXPECT_EQ(store_->Read(Metric::kExpired), 1u);
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

// --- Two keys that a cold slot cannot tell apart ---------------------------------------------------------

class LoadTwinsTest : public LoadLargerTest {
 protected:
  /// Stores all keys, with both twins.
  void SetUp() override {
    ASSERT_EQ(EncodeColdSlot(HashKey(kFirstTwin)), EncodeColdSlot(HashKey(kSecondTwin)));
    ASSERT_NO_FATAL_FAILURE(Fill());
  }
  /// Opens the store, which has loaded nothing yet, and makes the first twin cold.
  void OpenWithTheFirstCold() {
    ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
    ASSERT_TRUE(IsFetched(kFirstTwin));
    ASSERT_NO_FATAL_FAILURE(Scan());
  }
  /// Checks that the first twin was cold until now, and both values; then loads all keys.
  void ExpectBothAndLoadAll() {
    EXPECT_TRUE(IsFetched(kFirstTwin));
    for (const std::string& twin : {kFirstTwin, kSecondTwin}) {
      EXPECT_EQ(Get(twin), stored_.contains(twin) ? stored_.at(twin) : "NOT_FOUND") << twin;
    }
    ASSERT_NO_FATAL_FAILURE(LoadAll());
    ASSERT_NO_FATAL_FAILURE(ExpectStored());
  }
};

TEST_F(LoadTwinsTest, OneIsFetchedBesideTheOther) {
  ASSERT_NO_FATAL_FAILURE(OpenWithTheFirstCold());
  EXPECT_TRUE(IsFetched(kSecondTwin));
  ASSERT_NO_FATAL_FAILURE(ExpectBothAndLoadAll());
}

TEST_F(LoadTwinsTest, OneIsWrittenBesideTheOther) {
  ASSERT_NO_FATAL_FAILURE(OpenWithTheFirstCold());
  stored_[kSecondTwin] = "written";
  ASSERT_TRUE(Put(kSecondTwin, "written").ok());
  ASSERT_NO_FATAL_FAILURE(ExpectBothAndLoadAll());
}

TEST_F(LoadTwinsTest, OneIsTouchedBesideTheOther) {
  ASSERT_NO_FATAL_FAILURE(OpenWithTheFirstCold());
  ASSERT_TRUE(Touch(kSecondTwin, hours(1)).ok());
  ASSERT_NO_FATAL_FAILURE(ExpectBothAndLoadAll());
}

TEST_F(LoadTwinsTest, OneIsDeletedBesideTheOther) {
  ASSERT_NO_FATAL_FAILURE(OpenWithTheFirstCold());
  stored_.erase(kSecondTwin);
  ASSERT_TRUE(Delete(kSecondTwin).ok());
  EXPECT_TRUE(absl::IsNotFound(Delete(kSecondTwin)));
  ASSERT_NO_FATAL_FAILURE(ExpectBothAndLoadAll());
}

TEST_F(LoadTwinsTest, OneExpiresBesideTheOther) {
  ASSERT_TRUE(Touch(kSecondTwin, hours(1)).ok());
  ASSERT_TRUE(Touch(Key(0), hours(1)).ok());
  ASSERT_NO_FATAL_FAILURE(OpenWithTheFirstCold());
  stored_.erase(kSecondTwin);
  stored_.erase(Key(0));
  clock_.Advance(hours(2));
  EXPECT_EQ(Get(kSecondTwin), "NOT_FOUND");
  while (store_->RunMaintenance()) {
  }
  EXPECT_EQ(store_->Read(Metric::kExpired), 1u) << "the other one is not loaded yet";
  ASSERT_NO_FATAL_FAILURE(ExpectBothAndLoadAll());
  EXPECT_EQ(store_->Read(Metric::kExpired), 2u);
}

TEST_F(LoadTwinsTest, OneIsLoadedBesideTheOther) {
  ASSERT_NO_FATAL_FAILURE(OpenWithTheFirstCold());
  ASSERT_NO_FATAL_FAILURE(LoadAll());
  ASSERT_NO_FATAL_FAILURE(ExpectBothAndLoadAll());
}

// The load promotes one of two twins that do not fit: two cold entries of one hash could not be told apart.
TEST_F(LoadTwinsTest, BothDoNotFit) {
  // These keys come before both twins, and take all of the memory.
  for (int i = 0; i < kKeys / 2; ++i) {
    const std::string key = "before " + Key(i);
    stored_[key] = Value(key);
    ASSERT_TRUE(Put(key, stored_[key]).ok());
  }
  for (const Loading loading : {Loading::kInOpen, Loading::kInSteps}) {
    ASSERT_NO_FATAL_FAILURE(Open(loading));
    ASSERT_NO_FATAL_FAILURE(LoadAll());
    EXPECT_EQ(store_->Read(Metric::kFetches), 1u);
    EXPECT_EQ(store_->Read(Metric::kKeysLoaded), stored_.size());
    EXPECT_NE(IsFetched(kFirstTwin), IsFetched(kSecondTwin));
    ASSERT_NO_FATAL_FAILURE(ExpectStored());
  }
}

// --- Against a model -------------------------------------------------------------------------------------

class LoadLargerModelTest : public LoadLargerTest, public testing::WithParamInterface<unsigned> {
 protected:
  struct Known {
    std::string value;
    std::optional<std::int64_t> expiry_ms;
  };

  LoadLargerModelTest() : LoadLargerTest(GetParam()) {}

  std::string AnyKey() {
    if (random_() % 32 == 0) return random_() % 2 == 0 ? kFirstTwin : kSecondTwin;
    return Key(static_cast<int>(random_() % kKeys));
  }
  bool IsOver(const Known& known) const { return known.expiry_ms && *known.expiry_ms <= clock_.UnixMillis(); }
  std::optional<std::int64_t> ExpiryOf(milliseconds ttl) const {
    if (ttl == kNeverExpires) return std::nullopt;
    return clock_.UnixMillis() + ttl.count();
  }
  milliseconds AnyTtl() {
    return random_() % 4 == 0 ? milliseconds(1 + static_cast<std::int64_t>(random_() % 20'000))
                              : kNeverExpires;
  }
  /// The put may wait for space while time passes. Its TTL counts from the try that succeeds.
  void PutAny(const std::string& key) {
    const milliseconds ttl = AnyTtl();
    const std::string value = Value(key, 1 + random_() % (2 * kValueSize));
    ASSERT_TRUE(Put(key, value, ttl).ok());
    model_[key] = {value, ExpiryOf(ttl)};
  }

  void Act() {
    const std::string key = AnyKey();
    switch (random_() % 6) {
      case 0:
      case 1:
        return PutAny(key);
      case 2: {
        const absl::Status status = Delete(key);
        Forget(key);
        ASSERT_EQ(status.ok(), model_.erase(key) == 1) << key << ": " << status;
        return;
      }
      case 3: {
        const milliseconds ttl = AnyTtl();
        const absl::Status status = Touch(key, ttl);
        Forget(key);
        ASSERT_EQ(status.ok(), model_.contains(key)) << key << ": " << status;
        if (status.ok()) model_[key].expiry_ms = ExpiryOf(ttl);
        return;
      }
      default:
        return Look(key);
    }
  }
  /// Removes a key from the model if it expired while an operation waited.
  void Forget(const std::string& key) {
    const auto known = model_.find(key);
    if (known != model_.end() && IsOver(known->second)) model_.erase(known);
  }
  void Look(const std::string& key) {
    const std::string got = Get(key);
    Forget(key);
    const auto known = model_.find(key);
    ASSERT_EQ(got, known == model_.end() ? "NOT_FOUND" : known->second.value) << key;
  }

  std::map<std::string, Known> model_;
};

TEST_P(LoadLargerModelTest, AnyOrderOfStepsAndOperations) {
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInOpen));
  for (int i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(PutAny(Key(i)));
  for (int restart = 0; restart < 3; ++restart) {
    const unsigned steps_percent = static_cast<unsigned>(5 + random_() % 50);
    const bool to_the_end = restart % 2 == 0;
    ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
    bool loading = true;
    for (int i = 0; i < 1000 || (to_the_end && loading); ++i) {
      ASSERT_NO_FATAL_FAILURE(Act());
      if (random_() % 100 < steps_percent) loading = store_->Load();
      if (random_() % 20 == 0) clock_.Advance(milliseconds(random_() % 200));
      if (random_() % 50 == 0) store_->RunMaintenance();
      if (random_() % 500 == 0) clock_.Advance(std::chrono::seconds(60));  // lets the next cold expiry begin
    }
    if (!to_the_end) continue;
    ASSERT_FALSE(store_->loading()) << store_->load_status();
    for (int i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(Look(Key(i)));
    for (const std::string& twin : {kFirstTwin, kSecondTwin}) ASSERT_NO_FATAL_FAILURE(Look(twin));
    // The cold expirer first ends the passes through the tier
    // that it has begun, and then removes the expired keys.
    for (int pass = 0; pass < 3; ++pass) {
      while (store_->RunMaintenance()) {
      }
      clock_.Advance(hours(24));
    }
    std::erase_if(model_, [this](const auto& known) { return IsOver(known.second); });
    EXPECT_EQ(store_->Read(Metric::kKeys), model_.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LoadLargerModelTest, testing::Range(1u, 4u));

}  // namespace
}  // namespace remora
