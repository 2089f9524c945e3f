// The API of an embedded store, in memory, logged, and with a commit log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/format/memory/record.h"
#include "store/memory_plan.h"
#include "store/server_store.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::HasSubstr;

enum class TestedStore : std::uint8_t { kMemory = 1, kLogged = 2, kCommitLog = 3 };

class StoreTest : public testing::TestWithParam<TestedStore> {
 protected:
  TempDir temp_;
  std::unique_ptr<ServerStore> store_ = Open(kMinMemorySize);

  std::unique_ptr<ServerStore> Open(std::size_t memory_size) {
    StoreOptions options;
    options.memory_size = memory_size;
    options.durability = GetParam() == TestedStore::kMemory ? Durability::kMemory : Durability::kLogged;
    if (GetParam() == TestedStore::kCommitLog) options.commit_log_bytes = std::uint64_t{4} << 20;
    options.eviction = Eviction::kNone;
    options.grace = std::chrono::milliseconds(kMinGraceMs);  // so that tests wait less for memory
    if (GetParam() != TestedStore::kMemory)
      options.data_dir = temp_ / ("store" + std::to_string(memory_size));
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  /// Returns the value, or the name of the status that Get returned.
  std::string Get(std::string_view key) const {
    std::string value = "untouched";
    const absl::Status status = store_->Get(key, &value);
    if (status.ok()) return value;
    EXPECT_EQ(value, "untouched");
    return absl::StatusCodeToString(status.code());
  }
};

INSTANTIATE_TEST_SUITE_P(All, StoreTest,
                         testing::Values(TestedStore::kMemory, TestedStore::kLogged, TestedStore::kCommitLog),
                         [](const auto& suite) {
                           if (suite.param == TestedStore::kMemory) return "Memory";
                           return suite.param == TestedStore::kLogged ? "Logged" : "CommitLog";
                         });

TEST_P(StoreTest, PutGetOverwriteDelete) {
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  EXPECT_TRUE(store_->Put("key", "value").ok());
  EXPECT_EQ(Get("key"), "value");
  EXPECT_TRUE(store_->Put("key", "another").ok());
  EXPECT_EQ(Get("key"), "another");
  EXPECT_TRUE(store_->Delete("key").ok());
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  EXPECT_EQ(store_->Delete("key").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store_->Put("key", "again").ok());
  EXPECT_EQ(Get("key"), "again");
}

TEST_P(StoreTest, SizesAtTheirBounds) {
  const std::string long_key(kMaxKeySize, 'k');
  const std::string long_value(kMaxSmallValueSize, 'v');
  for (const std::string& key : {std::string("k"), std::string(1, '\0'), long_key}) {
    for (const std::string& value : {std::string(), std::string(1, '\0'), long_value}) {
      ASSERT_TRUE(store_->Put(key, value).ok());
      ASSERT_EQ(Get(key), value);
    }
  }
}

TEST_P(StoreTest, SizesBeyondTheirBounds) {
  const std::string long_key(kMaxKeySize + 1, 'k');
  EXPECT_EQ(store_->Put("", "value").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Put(long_key, "value").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Put("key", std::string(kMaxValueSize + 1, 'v')).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Delete("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Delete(long_key).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Get(""), "INVALID_ARGUMENT");
  EXPECT_EQ(Get(long_key), "INVALID_ARGUMENT");
  EXPECT_EQ(store_->Locate("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Read(Metric::kKeys), 0u);
}

TEST_P(StoreTest, LocateNamesARecordThatStays) {
  EXPECT_EQ(store_->Locate("key").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->Put("key", "value").ok());
  const absl::StatusOr<Location> first = store_->Locate("key");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(DecodeSlot(first->slot).fingerprint, Fingerprint(HashKey("key")));
  EXPECT_EQ(DecodeSlot(first->slot).extent_code, RecordExtentCode(3, 5));
  ASSERT_TRUE(store_->Put("key", "other").ok());
  const absl::StatusOr<Location> second = store_->Locate("key");
  ASSERT_TRUE(second.ok());
  EXPECT_NE(first->slot, second->slot);
  EXPECT_GT(second->version, first->version);
  EXPECT_EQ(store_->Read(Metric::kLocates), 3u);
}

TEST_P(StoreTest, AStoreThatIsFullSaysSoAndReadsGoOn) {
  const std::string value(kMaxSmallValueSize, 'v');
  absl::Status status;
  int puts = 0;
  for (; status.ok(); ++puts) status = store_->Put("key" + std::to_string(puts), value);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--memory"));
  EXPECT_EQ(Get("key" + std::to_string(puts - 1)), "NOT_FOUND");
  for (int i = 0; i + 1 < puts; ++i) ASSERT_EQ(Get("key" + std::to_string(i)), value);
  EXPECT_EQ(store_->Read(Metric::kPuts), static_cast<std::uint64_t>(puts - 1));
  EXPECT_TRUE(store_->Put("small", "fits").ok());
  EXPECT_TRUE(store_->Delete("small").ok());
}

// With the smallest records, the memory fills up before the index does.
TEST_P(StoreTest, ManySmallKeysFillTheMemoryAndReadsGoOn) {
  std::vector<std::string> keys(400'000);
  std::vector<Write> writes(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = std::to_string(i);
    writes[i].key = keys[i];
  }
  store_->Commit(writes);
  std::size_t stored = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (writes[i].status.ok()) {
      ++stored;
      ASSERT_EQ(Get(keys[i]), "");
    } else {
      ASSERT_EQ(writes[i].status.code(), absl::StatusCode::kResourceExhausted);
      ASSERT_EQ(Get(keys[i]), "NOT_FOUND");
    }
  }
  EXPECT_EQ(store_->Read(Metric::kKeys), stored);
  // Each record takes 48 bytes of the log and at most 24 of the index. The store keeps a few segments free.
  EXPECT_GT(stored, (kMinMemorySize - 4 * kSegmentSize) / (48 + 24));
}

// Overwrites fill the memory many times, at the pace of the grace periods.
TEST_P(StoreTest, OverwritesGoOnForEver) {
  const std::string value(50'000, 'v');
  constexpr int kKeys = 100;  // a third of the memory
  for (int i = 0; i < 3000; ++i) {
    const std::string number = std::to_string(i);
    ASSERT_TRUE(store_->Put("key" + std::to_string(i % kKeys), value + number).ok());
  }
  for (int key = 0; key < kKeys; ++key) {
    ASSERT_EQ(Get("key" + std::to_string(key)), value + std::to_string(3000 - kKeys + key));
  }
  EXPECT_GT(store_->Read(Metric::kSegmentsCleaned), 100u);
  EXPECT_LE(store_->Read(Metric::kLogBytesUsed), kMinMemorySize);
}

// Deletes make space.
TEST_P(StoreTest, AFullStoreTakesAgainWhatWasDeleted) {
  const std::string value(100'000, 'v');
  int puts = 0;
  while (store_->Put("key" + std::to_string(puts), value).ok()) ++puts;
  ASSERT_GT(puts, 100);
  for (int i = 0; i < puts; i += 2) ASSERT_TRUE(store_->Delete("key" + std::to_string(i)).ok());
  for (int i = 0; i < puts / 4; ++i) {
    const absl::Status status = store_->Put("new" + std::to_string(i), value);
    ASSERT_TRUE(status.ok()) << i << " of " << puts / 4 << ": " << status;
  }
  for (int i = 1; i < puts; i += 2) ASSERT_EQ(Get("key" + std::to_string(i)), value);
}

TEST_P(StoreTest, CountsWhatItDoes) {
  ASSERT_TRUE(store_->Put("a", "1").ok());
  ASSERT_TRUE(store_->Put("b", "2").ok());
  ASSERT_TRUE(store_->Put("a", "3").ok());
  ASSERT_TRUE(store_->Delete("b").ok());
  ASSERT_FALSE(store_->Delete("b").ok());
  EXPECT_EQ(store_->Read(Metric::kKeys), 1u);
  EXPECT_EQ(store_->Read(Metric::kPuts), 3u);
  EXPECT_EQ(store_->Read(Metric::kDeletes), 1u);
  EXPECT_EQ(store_->Read(Metric::kCommitGroups), 4u);
  EXPECT_EQ(store_->Read(Metric::kLastVersion), 4u);
  EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), 3u * 48);
  EXPECT_EQ(store_->Read(Metric::kLogBytesDead), 2u * 48);
  store_->Add(Metric::kPings, 5);
  store_->Add(Metric::kPings, -2);
  EXPECT_EQ(store_->Read(Metric::kPings), 3u);
}

TEST_P(StoreTest, AgreesWithAMap) {
  std::map<std::string, std::string> oracle;
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const std::string key(1 + random() % 3, static_cast<char>(random() % 4));
    switch (random() % 4) {
      case 0:
        ASSERT_EQ(store_->Delete(key).ok(), oracle.erase(key) == 1);
        break;
      case 1: {
        std::string value(random() % 200, static_cast<char>(random()));
        ASSERT_TRUE(store_->Put(key, value).ok());
        oracle[key] = std::move(value);
        break;
      }
      default: {
        const auto found = oracle.find(key);
        ASSERT_EQ(Get(key), found == oracle.end() ? "NOT_FOUND" : found->second);
      }
    }
  }
  ASSERT_EQ(store_->Read(Metric::kKeys), oracle.size());
}

// --- Opening --------------------------------------------------------------------------------------------

TEST(StoreOpenTest, OptionsOutOfBounds) {
  TempDir temp;
  StoreOptions options = LoggedIn(temp / "store");
  options.memory_size = kMinMemorySize - 1;
  EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = LoggedIn("");
  EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = LoggedIn(temp / "store");
  options.durability = Durability::kMemory;
  EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.durability = Durability{77};
  EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = LoggedIn(temp / "store");
  options.grace = std::chrono::milliseconds(kMinGraceMs - 1);
  EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.grace = std::chrono::milliseconds(60'001);
  EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(FilesIn(temp.path()).empty()) << "rejected options left something behind";
}

TEST(StoreOpenTest, TheSuperblockDescribesTheStore) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  options.incarnation = 4711;
  const auto store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok());
  const Superblock& superblock = (*store)->superblock();
  EXPECT_EQ(superblock.magic, kSuperblockMagic);
  EXPECT_EQ(superblock.format_version, kFormatVersion);
  EXPECT_EQ(superblock.layout_signature, LayoutSignature());
  EXPECT_EQ(superblock.incarnation, 4711u);
  EXPECT_EQ(superblock.memory_size, *RegionSize(kMinMemorySize));
  EXPECT_EQ(superblock.grace_ms, 100u);
  EXPECT_EQ(superblock.metric_count, kMetricPlaces);
  EXPECT_GT(superblock.level, 0u);
}

TEST(StoreOpenTest, IncarnationsDiffer) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  const auto one = ServerStore::Open(options);
  const auto two = ServerStore::Open(options);
  EXPECT_NE((*one)->superblock().incarnation, 0u);
  EXPECT_NE((*one)->superblock().incarnation, (*two)->superblock().incarnation);
}

// --- In the caller's memory -----------------------------------------------------------------------------

/// The memory of a store, read as another process would read it, with the functions of the format only.
class CallersMemoryTest : public testing::Test {
 protected:
  static constexpr std::size_t kSize = kMinMemorySize;
  std::unique_ptr<AnonymousMemory> pages_ = *AnonymousMemory::Map(*RegionSize(kSize));
  const std::span<std::byte> memory_ = pages_->bytes();
  std::unique_ptr<ServerStore> store_ = [this] {
    StoreOptions options;
    options.memory_size = kSize;
    return *ServerStore::Open(options, memory_);
  }();

  const Superblock& superblock() const { return *reinterpret_cast<const Superblock*>(memory_.data()); }
  /// Returns the only segment that the index has so far.
  std::span<std::byte> index() const {
    const auto* directory = reinterpret_cast<const std::uint64_t*>(memory_.data() + DirectoryOffset());
    return memory_.subspan(DirectoryEntrySegment(directory[0]) * kSegmentSize, kSegmentSize);
  }
  /// Returns the slot of a key that is alone in its main bucket.
  Slot SlotOf(std::string_view key) const {
    const std::uint64_t hash = HashKey(key);
    const auto& bucket = *reinterpret_cast<const Bucket*>(
        index().data() +
        BucketAtDepth(hash, static_cast<std::uint32_t>(superblock().level)) * sizeof(Bucket));
    SlotSet found = FindSlots(bucket, hash);
    return found.empty() ? Slot{} : DecodeSlot(bucket.slots[static_cast<std::size_t>(found.Next())]);
  }
  RecordHeader& HeaderAt(const Slot& slot) const {
    return *reinterpret_cast<RecordHeader*>(memory_.data() + slot.offset_bytes());
  }
  RecordState Check(std::string_view key, const Slot& slot) const {
    const RecordHeader& header = HeaderAt(slot);
    return CheckRecord(header, reinterpret_cast<const std::byte*>(&header + 1), key, HashKey(key),
                       {slot.offset_units, slot.extent_bytes(), {}, superblock().incarnation});
  }
};

TEST_F(CallersMemoryTest, HoldsWhatReadersNeed) {
  ASSERT_TRUE(store_->Put("key", "value").ok());
  const Slot slot = SlotOf("key");
  EXPECT_EQ(Check("key", slot), RecordState::kLive);
  EXPECT_EQ(EncodeSlot(slot), store_->Locate("key")->slot);
  EXPECT_EQ(superblock().counters[static_cast<std::size_t>(Metric::kPuts)], 1u);
}

TEST_F(CallersMemoryTest, OverwrittenAndDeletedRecordsAreDead) {
  ASSERT_TRUE(store_->Put("key", "value").ok());
  const Slot first = SlotOf("key");
  ASSERT_TRUE(store_->Put("key", "other").ok());
  const Slot second = SlotOf("key");
  EXPECT_EQ(Check("key", first), RecordState::kDead);
  EXPECT_EQ(Check("key", second), RecordState::kLive);
  ASSERT_TRUE(store_->Delete("key").ok());
  EXPECT_EQ(Check("key", second), RecordState::kDead);
  EXPECT_EQ(SlotOf("key"), Slot{});
}

// A writer stops for long between the two steps of an update. The
// reader neither searches for ever, nor takes the key for missing.
TEST_F(CallersMemoryTest, AReaderThatIsAlwaysDisturbedWaitsForTheWriter) {
  ASSERT_TRUE(store_->Put("key", "value").ok());
  struct Stopped {
    RecordHeader* header;
    ServerStore* store;
    std::thread reader;
    absl::Status status;
    std::string value;
  } stopped{&HeaderAt(SlotOf("key")), store_.get(), {}, {}, {}};
  Write write;
  write.key = "other";
  write.verify_context = &stopped;
  // The writer calls this while it holds the lock.
  write.verify = [](const void* context, std::uint64_t, std::uint64_t) {
    auto* self = static_cast<Stopped*>(const_cast<void*>(context));
    std::atomic_ref(self->header->version_live).fetch_and(~kLiveBit);
    self->reader = std::thread([self] { self->status = self->store->Get("key", &self->value); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::atomic_ref(self->header->version_live).fetch_or(kLiveBit);
    return true;
  };
  store_->Commit(std::span(&write, 1));
  stopped.reader.join();
  EXPECT_TRUE(stopped.status.ok()) << stopped.status;
  EXPECT_EQ(stopped.value, "value");
}

/// Stops the writer at its first store into the index, and
/// notes which of two records are live at that moment.
class IndexStoreTrap {
 public:
  IndexStoreTrap(std::span<std::byte> index, const RecordHeader& older, const RecordHeader& newer)
      : index_(index), older_(older), newer_(newer) {
    armed = this;
    struct sigaction action = {};
    action.sa_handler = [](int) { armed->Spring(); };
    sigaction(SIGSEGV, &action, &old_action_);
    mprotect(index_.data(), index_.size(), PROT_READ);
  }
  ~IndexStoreTrap() {
    mprotect(index_.data(), index_.size(), PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &old_action_, nullptr);
    armed = nullptr;
  }
  int sprung = 0;
  bool older_was_live = false;
  bool newer_was_live = false;

 private:
  void Spring() {
    if (++sprung > 1) std::abort();  // another page caused the fault
    older_was_live = (older_.version_live & kLiveBit) != 0;
    newer_was_live = (newer_.version_live & kLiveBit) != 0;
    mprotect(index_.data(), index_.size(), PROT_READ | PROT_WRITE);
  }

  static inline IndexStoreTrap* armed = nullptr;
  const std::span<std::byte> index_;
  const RecordHeader& older_;
  const RecordHeader& newer_;
  struct sigaction old_action_;
};

// I5: when the writer changes the slot, the old record is dead already, and the new one is live.
TEST_F(CallersMemoryTest, TheOldRecordIsDeadBeforeTheSlotChanges) {
  ASSERT_TRUE(store_->Put("key", "value").ok());
  const Slot first = SlotOf("key");
  const Slot second{first.fingerprint, first.extent_code,
                    first.offset_units + ExtentUnits(first.extent_code)};
  {
    IndexStoreTrap trap(index(), HeaderAt(first), HeaderAt(second));
    ASSERT_TRUE(store_->Put("key", "other").ok());
    EXPECT_EQ(trap.sprung, 1);
    EXPECT_FALSE(trap.older_was_live);
    EXPECT_TRUE(trap.newer_was_live);
  }
  ASSERT_EQ(SlotOf("key"), second) << "the test knows where the log goes on";
  IndexStoreTrap trap(index(), HeaderAt(second), HeaderAt(second));
  ASSERT_TRUE(store_->Delete("key").ok());
  EXPECT_EQ(trap.sprung, 1);
  EXPECT_FALSE(trap.older_was_live);
}

// A remote reader that follows a torn slot may see a record that failed verification. It must not be live.
TEST_F(CallersMemoryTest, ARecordThatFailedVerificationIsNotLive) {
  ASSERT_TRUE(store_->Put("key", "value").ok());
  const Slot slot = SlotOf("key");
  const Slot next{slot.fingerprint, slot.extent_code, slot.offset_units + ExtentUnits(slot.extent_code)};
  Write write;
  write.key = "key";
  write.value = "other";
  write.verify = [](const void*, std::uint64_t, std::uint64_t) { return false; };
  store_->Commit(std::span(&write, 1));
  ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(&HeaderAt(next) + 1), 8), "keyother");
  EXPECT_EQ(Check("key", next), RecordState::kTorn);
}

TEST(StoreOpenTest, MemoryOfOtherSizesIsRejected) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  std::vector<std::byte> bytes(options.memory_size);
  EXPECT_EQ(ServerStore::Open(options, std::span(bytes).first(bytes.size() - 4096)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(StoreOpenTest, ADirectoryInUseAlreadyExists) {
  TempDir temp;
  const auto first = ServerStore::Open(LoggedIn(temp / "store"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ServerStore::Open(LoggedIn(temp / "store")).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace remora
