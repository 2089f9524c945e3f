// A load that goes on while the store serves (store/recovery/index_loader.h, L1 and L2). It runs step by step
// where the order matters, and in threads where the order must not matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::unique_ptr<ServerStore> OpenOrDie(const StoreOptions& options) {
  absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

/// Returns the value, or the name of the status code.
std::string Get(const ServerStore& store, const std::string& key) {
  std::string value;
  const absl::Status status = store.Get(key, &value);
  return status.ok() ? value : absl::StatusCodeToString(status.code());
}

std::string RandomBytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class LoadServingTest : public testing::Test {
 protected:
  static constexpr int kKeys = 1000;

  TempDir temp_;
  ManualClock clock_;
  StoreOptions options_ = [this] {
    StoreOptions options = LoggedIn(temp_ / "store", std::size_t{64} << 20);
    options.clock = &clock_;
    return options;
  }();
  std::mt19937_64 random_{1};
  std::map<std::string, std::string> stored_;
  std::unique_ptr<ServerStore> store_;

  static std::string Key(int i) { return "key" + std::to_string(i); }

  /// Stores keys 0 to kKeys - 1, and reopens the store, which has loaded nothing yet.
  void FillAndReopen(std::size_t value_size = 200) {
    store_ = OpenOrDie(options_);
    for (int i = 0; i < kKeys; ++i) {
      stored_[Key(i)] = RandomBytes(random_, value_size);
      ASSERT_TRUE(store_->Put(Key(i), stored_[Key(i)]).ok());
    }
    Reopen();
  }
  void Reopen() {
    store_.reset();
    options_.loading = Loading::kInSteps;
    store_ = OpenOrDie(options_);
  }
  void LoadAll() {
    while (store_->Load()) {
    }
  }
  void ExpectStored() {
    for (const auto& [key, value] : stored_) ASSERT_EQ(Get(*store_, key), value) << key;
    EXPECT_EQ(store_->Read(Metric::kKeys), stored_.size());
  }
};

TEST_F(LoadServingTest, AKeyThatIsNotLoadedIsFound) {
  ASSERT_NO_FATAL_FAILURE(FillAndReopen());
  ASSERT_TRUE(store_->loading());
  EXPECT_EQ(store_->Read(Metric::kLoading), 1u);
  EXPECT_EQ(store_->Read(Metric::kKeys), 0u);
  ASSERT_EQ(Get(*store_, Key(7)), stored_[Key(7)]);
  EXPECT_EQ(store_->Read(Metric::kKeys), 1u) << "it was brought in, and nothing else";
  EXPECT_EQ(store_->Locate(Key(8))->version, 9u);
  EXPECT_EQ(*store_->Ttl(Key(9)), std::nullopt);
  EXPECT_EQ(Get(*store_, "none"), "NOT_FOUND");
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
  LoadAll();
  EXPECT_FALSE(store_->loading());
  EXPECT_TRUE(store_->load_status().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

TEST_F(LoadServingTest, StepsLoadAllOfIt) {
  ASSERT_NO_FATAL_FAILURE(FillAndReopen());
  int steps = 1;
  std::uint64_t loaded = 0;
  for (; store_->Load(); ++steps) {
    EXPECT_GE(store_->Read(Metric::kKeysLoaded), loaded);
    loaded = store_->Read(Metric::kKeysLoaded);
  }
  EXPECT_GT(steps, 5);
  EXPECT_FALSE(store_->Load());
  EXPECT_EQ(store_->Read(Metric::kKeysLoaded), static_cast<std::uint64_t>(kKeys));
  EXPECT_EQ(store_->Read(Metric::kLoading), 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
  EXPECT_EQ(store_->Read(Metric::kLogBytesDead), 0u);
}

TEST_F(LoadServingTest, KeysWrittenDuringTheLoadStay) {
  ASSERT_NO_FATAL_FAILURE(FillAndReopen());
  for (int i = 0; i < kKeys; i += 3) {
    stored_[Key(i)] = "new" + std::to_string(i);
    ASSERT_TRUE(store_->Put(Key(i), stored_[Key(i)]).ok());
  }
  LoadAll();
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
  Reopen();
  LoadAll();
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

TEST_F(LoadServingTest, KeysDeletedDuringTheLoadStayDeleted) {
  ASSERT_NO_FATAL_FAILURE(FillAndReopen());
  for (int i = 0; i < kKeys; i += 3) {
    ASSERT_TRUE(store_->Delete(Key(i)).ok());
    EXPECT_TRUE(absl::IsNotFound(store_->Delete(Key(i))));
    stored_.erase(Key(i));
  }
  LoadAll();
  for (int i = 0; i < kKeys; i += 3) ASSERT_EQ(Get(*store_, Key(i)), "NOT_FOUND");
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

TEST_F(LoadServingTest, AGroupFindsWhatIsNotLoaded) {
  ASSERT_NO_FATAL_FAILURE(FillAndReopen());
  // Enough keys to fill main buckets. The group needs space
  // for its new keys, and for keys that are not loaded yet.
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back(Key(i));
  for (int i = 0; i < kKeys; ++i) keys.push_back("fresh" + std::to_string(i));
  std::shuffle(keys.begin(), keys.end(), random_);
  std::vector<Write> writes(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    writes[i].key = keys[i];
    const bool old = stored_.contains(keys[i]);
    writes[i].kind = !old ? Write::Kind::kPut : i % 2 == 0 ? Write::Kind::kDelete : Write::Kind::kTouch;
    if (!old) stored_[keys[i]] = writes[i].value = "fresh";
    if (writes[i].kind == Write::Kind::kDelete) stored_.erase(keys[i]);
  }
  store_->Commit(writes);
  for (const Write& write : writes) ASSERT_TRUE(write.status.ok()) << write.status;
  LoadAll();
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

TEST_F(LoadServingTest, TouchFindsTheValueAndItsExpiryHolds) {
  ASSERT_NO_FATAL_FAILURE(FillAndReopen());
  ASSERT_TRUE(store_->Touch(Key(1), milliseconds(1000)).ok());
  ASSERT_TRUE(store_->Touch(Key(2), milliseconds(1900)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Touch("none", milliseconds(100))));
  EXPECT_EQ(Get(*store_, Key(1)), stored_[Key(1)]);
  clock_.Advance(milliseconds(1000));
  stored_.erase(Key(1));
  EXPECT_EQ(Get(*store_, Key(1)), "NOT_FOUND");
  LoadAll();
  EXPECT_EQ(Get(*store_, Key(1)), "NOT_FOUND");
  EXPECT_EQ(**store_->Ttl(Key(2)), milliseconds(900));
  while (store_->RunMaintenance()) {
  }
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

TEST_F(LoadServingTest, ExpiredKeysAreNotLoaded) {
  store_ = OpenOrDie(options_);
  for (int i = 0; i < kKeys; ++i) {
    PutOptions ttl;
    if (i % 2 == 0) ttl.ttl = milliseconds(1000);
    stored_[Key(i)] = RandomBytes(random_, 100);
    ASSERT_TRUE(store_->Put(Key(i), stored_[Key(i)], ttl).ok());
  }
  Reopen();
  EXPECT_EQ(Get(*store_, Key(2)), stored_[Key(2)]);  // its record is in memory when it expires
  clock_.Advance(milliseconds(1000));
  EXPECT_EQ(Get(*store_, Key(2)), "NOT_FOUND");
  EXPECT_EQ(Get(*store_, Key(4)), "NOT_FOUND");
  EXPECT_TRUE(absl::IsNotFound(store_->Delete(Key(4))));
  ASSERT_TRUE(store_->Put(Key(6), "again").ok());
  LoadAll();
  while (store_->RunMaintenance()) {
  }
  for (int i = 0; i < kKeys; i += 2) stored_.erase(Key(i));
  stored_[Key(6)] = "again";
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
  EXPECT_EQ(store_->Read(Metric::kExpired), static_cast<std::uint64_t>(kKeys / 2 - 1));
  Reopen();
  LoadAll();
  EXPECT_EQ(store_->Read(Metric::kExpired), 0u) << "it has left the disk, too";
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

// --- Against a model --------------------------------------------------------------------------------------

class LoadModelTest : public testing::TestWithParam<unsigned> {
 protected:
  struct Known {
    std::string value;
    std::optional<std::int64_t> expiry_ms;
  };

  void SetUp() override {
    options_ = LoggedIn(temp_ / "store", std::size_t{64} << 20);
    options_.clock = &clock_;
    options_.loading = Loading::kInSteps;
    store_ = OpenOrDie(options_);
  }

  std::string AnyKey() { return "key" + std::to_string(random_() % 1500); }

  void Act() {
    const std::string key = AnyKey();
    auto known = model_.find(key);
    if (known != model_.end() && known->second.expiry_ms && *known->second.expiry_ms <= clock_.UnixMillis()) {
      model_.erase(known);
      known = model_.end();
    }
    const bool there = known != model_.end();
    const milliseconds ttl = random_() % 4 == 0 ? milliseconds(1 + random_() % 300) : kNeverExpires;
    const auto expiry =
        ttl == kNeverExpires ? std::nullopt : std::optional(clock_.UnixMillis() + ttl.count());
    switch (random_() % 5) {
      case 0:
      case 1:
        model_[key] = {RandomBytes(random_, random_() % 300), expiry};
        ASSERT_TRUE(store_->Put(key, model_[key].value, {.ttl = ttl}).ok());
        return;
      case 2:
        ASSERT_EQ(store_->Delete(key).ok(), there) << key;
        model_.erase(key);
        return;
      case 3:
        ASSERT_EQ(store_->Touch(key, ttl).ok(), there) << key;
        if (there) known->second.expiry_ms = expiry;
        return;
      default:
        ASSERT_EQ(Get(*store_, key), there ? known->second.value : "NOT_FOUND") << key;
    }
  }

  TempDir temp_;
  ManualClock clock_;
  StoreOptions options_;
  std::mt19937_64 random_{GetParam()};
  std::map<std::string, Known> model_;
  std::unique_ptr<ServerStore> store_;
};

TEST_P(LoadModelTest, AnyOrderOfStepsAndOperations) {
  for (int restart = 0; restart < 12; ++restart) {
    const bool to_the_end = random_() % 4 != 0;
    const unsigned steps_percent = static_cast<unsigned>(1 + random_() % 10);
    bool loading = true;
    for (int i = 0; i < 1500 || (to_the_end && loading); ++i) {
      ASSERT_NO_FATAL_FAILURE(Act());
      if (random_() % 100 < steps_percent) loading = store_->Load();
      if (random_() % 20 == 0) clock_.Advance(milliseconds(random_() % 20));
      if (random_() % 50 == 0) store_->RunMaintenance();
    }
    store_.reset();
    store_ = OpenOrDie(options_);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LoadModelTest, testing::Range(1u, 5u));

// --- In threads -------------------------------------------------------------------------------------------

class LoadThreadsTest : public testing::Test {
 protected:
  // Enough data for two loading threads.
  static constexpr int kKeys = 10'000;
  static constexpr std::size_t kValueSize = 4000;

  void SetUp() override {
    options_ = LoggedIn(temp_ / "store", std::size_t{128} << 20);
    store_ = OpenOrDie(options_);
    std::vector<std::string> values;
    for (int i = 0; i < kKeys; ++i) {
      values_.push_back(RandomBytes(random_, kValueSize));
      ASSERT_TRUE(store_->Put(Key(i), values_.back()).ok());
    }
    options_.loading = Loading::kInBackground;
    options_.load_threads = 3;
  }
  void Reopen() {
    store_.reset();
    store_ = OpenOrDie(options_);
  }
  static std::string Key(int i) { return "key" + std::to_string(i); }

  TempDir temp_;
  StoreOptions options_;
  std::mt19937_64 random_{1};
  std::vector<std::string> values_;
  std::unique_ptr<ServerStore> store_;
};

TEST_F(LoadThreadsTest, OperationsGoOnBesideIt) {
  Reopen();
  int done = 0;
  for (; store_->loading() || done < 5000; ++done) {
    const int i = static_cast<int>(random_() % kKeys);
    std::string& value = values_[static_cast<std::size_t>(i)];
    switch (random_() % 4) {
      case 0:
        ASSERT_EQ(store_->Delete(Key(i)).ok(), value != "NOT_FOUND") << i;
        value = "NOT_FOUND";
        break;
      case 1:
        value = "new" + std::to_string(done);
        ASSERT_TRUE(store_->Put(Key(i), value).ok());
        break;
      default:
        ASSERT_EQ(Get(*store_, Key(i)), value) << i;
    }
    store_->RunMaintenance();
  }
  EXPECT_TRUE(store_->load_status().ok());
  std::uint64_t keys = 0;
  for (int i = 0; i < kKeys; ++i) {
    const std::string& value = values_[static_cast<std::size_t>(i)];
    ASSERT_EQ(Get(*store_, Key(i)), value) << i;
    keys += value != "NOT_FOUND";
  }
  EXPECT_EQ(store_->Read(Metric::kKeys), keys);
}

TEST_F(LoadThreadsTest, AStoreMayEndInTheMiddleOfIt) {
  for (int restart = 0; restart < 5; ++restart) {
    Reopen();
    while (store_->Read(Metric::kKeysLoaded) < static_cast<std::uint64_t>(restart) * 1000) {
    }
  }
  Reopen();
  for (int i = 0; i < kKeys; ++i) ASSERT_EQ(Get(*store_, Key(i)), values_[static_cast<std::size_t>(i)]);
}

TEST_F(LoadThreadsTest, ThreadsBeforeOpenReturnsLoadTheSame) {
  options_.loading = Loading::kInOpen;
  Reopen();
  EXPECT_FALSE(store_->loading());
  EXPECT_EQ(store_->Read(Metric::kKeysLoaded), static_cast<std::uint64_t>(kKeys));
  for (int i = 0; i < kKeys; ++i) ASSERT_EQ(Get(*store_, Key(i)), values_[static_cast<std::size_t>(i)]);
}

// A store whose index may not fit serves only after the load, so that Open can return the error.
TEST_F(LoadThreadsTest, OpenFailsIfTheIndexDoesNotFit) {
  store_.reset();
  options_.memory_size = kMinMemorySize;
  options_.eviction = Eviction::kNone;
  EXPECT_EQ(ServerStore::Open(options_).status().code(), absl::StatusCode::kOutOfRange);
}

// --- When it cannot be done -------------------------------------------------------------------------------

TEST_F(LoadServingTest, AKeyThatDoesNotFitIsNeverMissing) {
  ASSERT_NO_FATAL_FAILURE(FillAndReopen(30'000));
  store_.reset();
  options_.memory_size = kMinMemorySize;
  options_.eviction = Eviction::kNone;
  options_.clock = nullptr;  // a real clock, so that a Get that waits for memory can end
  store_ = OpenOrDie(options_);
  LoadAll();
  EXPECT_EQ(store_->load_status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(store_->load_status().message()), HasSubstr("1000 keys"));
  EXPECT_TRUE(store_->loading()) << "for ever: a key may be on disk alone";
  int found = 0;
  for (const auto& [key, value] : stored_) {
    const std::string got = Get(*store_, key);
    found += got == value;
    ASSERT_TRUE(got == value || got == "RESOURCE_EXHAUSTED") << key << ": " << got;
  }
  EXPECT_GT(found, 300);
  EXPECT_EQ(Get(*store_, "none"), "NOT_FOUND") << "the disk was asked";
}

TEST_F(LoadServingTest, ADamagedKeyIsNeverMissing) {
  ASSERT_NO_FATAL_FAILURE(FillAndReopen(2000));
  store_.reset();
  const std::vector<std::string> tables = FilesIn(options_.data_dir, ".sst");
  ASSERT_FALSE(tables.empty());
  std::size_t largest = 0;
  std::string path;
  for (const std::string& table : tables) {
    if (const std::string bytes = ReadFile(table); bytes.size() > largest) {
      largest = bytes.size();
      path = table;
    }
  }
  std::string bytes = ReadFile(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  WriteFile(path, bytes);
  store_ = OpenOrDie(options_);
  LoadAll();
  EXPECT_EQ(store_->load_status().code(), absl::StatusCode::kDataLoss) << store_->load_status();
  EXPECT_TRUE(store_->loading());
  int lost = 0;
  for (const auto& [key, value] : stored_) {
    const std::string got = Get(*store_, key);
    lost += got == "DATA_LOSS";
    ASSERT_TRUE(got == value || got == "DATA_LOSS") << key << ": " << got;
  }
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 20) << "a block of the table";
}

// A step that finds no space before a grace period is over continues later where it stopped.
TEST_F(LoadServingTest, ALoadWaitsForMemoryThatRests) {
  options_.memory_size = std::size_t{20} << 20;
  options_.eviction = Eviction::kNone;
  ASSERT_NO_FATAL_FAILURE(FillAndReopen(12'000));  // two thirds of the memory
  int put_off = 0;
  // Overwrites leave most segments dead: they are in their grace period, or wait for the cleaner.
  for (int i = 0; store_->loading(); ++i) {
    Write write;
    const std::string key = Key(i % 50);
    write.key = key;
    write.value = stored_[key];
    store_->Commit(std::span(&write, 1));
    put_off += absl::IsAborted(write.status);
    if (i % 20 == 0) store_->Load();
    if (i % 100 == 0) clock_.Advance(milliseconds(10));
    if (i > 1'000'000) FAIL() << "it never ends";
  }
  EXPECT_TRUE(store_->load_status().ok()) << store_->load_status();
  EXPECT_GT(put_off, 0);
  ASSERT_NO_FATAL_FAILURE(ExpectStored());
}

}  // namespace
}  // namespace remora
