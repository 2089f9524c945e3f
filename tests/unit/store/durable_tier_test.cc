#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store/durable/tier.h"
#include "store/format/memory/layout.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::Contains;
using testing::HasSubstr;

class DurableTierTest : public testing::Test {
 protected:
  TempDir temp_;
  const std::string path_ = temp_ / "store";

  std::unique_ptr<DurableTier> Open() {
    absl::StatusOr<std::unique_ptr<DurableTier>> tier = DurableTier::Open(path_);
    EXPECT_TRUE(tier.ok()) << tier.status();
    return tier.ok() ? *std::move(tier) : nullptr;
  }
  absl::Status OpenStatus() { return DurableTier::Open(path_).status(); }

  static std::string Shown(const DurableTier::Entry& entry) {
    const std::uint64_t expiry_ms = entry.header.expiry_ms;
    return std::to_string(entry.header.version) + ":" + std::string(entry.value) +
           (expiry_ms == 0 ? "" : " until " + std::to_string(expiry_ms));
  }
  static std::map<std::string, std::string> All(const DurableTier& tier,
                                                const DurableTier::KeyRange* range = nullptr) {
    std::map<std::string, std::string> all;
    const auto take = [&](const DurableTier::Entry& entry) {
      EXPECT_TRUE(all.empty() || all.rbegin()->first < entry.key) << "in their order, each once";
      all.emplace_hint(all.end(), entry.key, Shown(entry));
      return absl::OkStatus();
    };
    const absl::Status status = range == nullptr ? tier.ForEach(take) : tier.ForEach(*range, take);
    EXPECT_TRUE(status.ok()) << status;
    return all;
  }
  /// Returns the entry that Get shows, or the code of its error.
  static std::string Got(const DurableTier& tier, std::string_view key) {
    std::string shown;
    const absl::Status status = tier.Get(key, [&](const DurableTier::Entry& entry) {
      EXPECT_EQ(entry.key, key);
      shown = Shown(entry);
      return absl::OkStatus();
    });
    if (status.ok()) return shown;
    EXPECT_EQ(shown, "") << status;
    return absl::StatusCodeToString(status.code());
  }
  /// Returns how many keys each range shows. Checks that the
  /// ranges are in the order of keys, and show all keys.
  static std::vector<std::size_t> Counts(const DurableTier& tier, std::size_t parts) {
    std::vector<std::size_t> counts;
    std::map<std::string, std::string> all;
    for (const DurableTier::KeyRange& range : tier.Split(parts)) {
      auto shown = All(tier, &range);
      counts.push_back(shown.size());
      EXPECT_TRUE(all.empty() || shown.empty() || all.rbegin()->first < shown.begin()->first);
      all.merge(shown);
    }
    EXPECT_TRUE(all == All(tier));  // too many to print
    return counts;
  }
  static std::string TableKey(std::size_t i) {
    const std::string digits = std::to_string(i);
    return "key" + std::string(9 - digits.size(), '0') + digits;
  }
  /// Returns bytes that do not compress, so that the files contain them unchanged.
  static std::string RandomBytes(std::size_t size, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string bytes(size, '\0');
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
    return bytes;
  }
  /// Makes a store that has the keys TableKey(0) and up, with
  /// versions from 1, in one table. Returns their values.
  std::vector<std::string> FillTable(std::size_t keys, std::size_t value_size) {
    std::vector<std::string> values;
    {
      const std::unique_ptr<DurableTier> tier = Open();
      tier->SetVersionLimit(keys + 1);
      for (std::size_t i = 0; i < keys; ++i) {
        values.push_back(RandomBytes(value_size, i));
        tier->Put(TableKey(i), {.version = i + 1}, values.back());
      }
      EXPECT_TRUE(tier->Write().ok());
    }
    Open();
    return values;
  }
  /// Flips one bit of this value in the table that has it.
  void Damage(const std::string& value) {
    for (const std::string& table : FilesIn(path_, ".sst")) {
      std::string bytes = ReadFile(table);
      const std::size_t at = bytes.find(value);
      if (at == std::string::npos) continue;
      bytes[at + value.size() / 2] ^= 1;
      return WriteFile(table, bytes);
    }
    FAIL() << "no table holds it";
  }

  /// Makes a store of some megabytes, some of it in tables and some in the log.
  void Fill() {
    const std::unique_ptr<DurableTier> tier = Open();
    tier->SetVersionLimit(1'000'000);
    for (std::uint64_t i = 1; i <= 500; ++i) {
      tier->Put("key" + std::to_string(i), {.version = i}, std::string(4000, 'v'));
      ASSERT_TRUE(tier->Write().ok());
    }
  }
};

TEST_F(DurableTierTest, KeepsWhatIsWritten) {
  {
    const auto tier = Open();
    EXPECT_EQ(tier->version_limit(), 1u);
    tier->SetVersionLimit(100);
    tier->Put("a", {.version = 1}, "one");
    tier->Put("b", {.version = 2, .expiry_ms = 1'700'000'000'000}, "");
    tier->Put("a", {.version = 3}, "three");
    tier->Put("c", {.version = 4}, "four");
    tier->Delete("c");
    EXPECT_EQ(tier->version_limit(), 1u) << "before it is written";
    ASSERT_TRUE(tier->Write().ok());
    EXPECT_EQ(tier->version_limit(), 100u);
  }
  const auto tier = Open();
  EXPECT_EQ(tier->version_limit(), 100u);
  EXPECT_EQ(All(*tier),
            (std::map<std::string, std::string>{{"a", "3:three"}, {"b", "2: until 1700000000000"}}));
}

TEST_F(DurableTierTest, KeysAndValuesOfAllBytesAndSizes) {
  const std::string key(kMaxKeySize, '\xff');
  const std::string value(kMaxSmallValueSize, '\0');
  {
    const auto tier = Open();
    tier->SetVersionLimit(100);
    tier->Put(key, {.version = 1}, value);
    tier->Put(std::string(1, '\0'), {.version = 2}, "zero");
    ASSERT_TRUE(tier->Write().ok());
  }
  const auto all = All(*Open());
  EXPECT_EQ(all.size(), 2u);
  EXPECT_EQ(all.at(key), "1:" + value);
  EXPECT_EQ(all.at(std::string(1, '\0')), "2:zero");
}

TEST_F(DurableTierTest, PrintsNothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Fill();
  Open();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(DurableTierTest, AStoreOfSomebodyElsesRocksDbIsNotTouched) {
  Fill();
  std::filesystem::remove(path_ + "/REMORA");
  const std::vector<std::string> before = FilesIn(path_);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FilesIn(path_), before);
}

// The process was killed while it created the store. It had
// acknowledged nothing, so the next one creates it again.
TEST_F(DurableTierTest, AHalfMadeStoreIsMadeAgain) {
  Open();
  WriteFile(path_ + "/REMORA", "");
  ASSERT_TRUE(OpenStatus().ok()) << "killed last before the marker was written";
  WriteFile(path_ + "/REMORA", "");
  std::filesystem::remove(path_ + "/CURRENT");
  for (const std::string& log : FilesIn(path_, ".log")) std::filesystem::remove(log);
  ASSERT_TRUE(OpenStatus().ok()) << "killed before RocksDB named its manifest";
  EXPECT_EQ(ReadFile(path_ + "/REMORA"), "remora-store 1\n");
}

TEST_F(DurableTierTest, ALostManifestIsDataLossAndNotANewStore) {
  Fill();
  std::filesystem::remove(path_ + "/CURRENT");
  const absl::Status status = OpenStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(DurableTierTest, ADamagedManifestIsDataLoss) {
  Fill();
  for (const std::string& file : FilesIn(path_)) {
    if (file.find("MANIFEST") == std::string::npos) continue;
    std::string bytes = ReadFile(file);
    bytes[bytes.size() / 2] ^= 1;
    WriteFile(file, bytes);
  }
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
}

// A killed process may leave a part of the last record.
TEST_F(DurableTierTest, AnIncompleteEndOfTheLogIsNotDamage) {
  Fill();
  const std::vector<std::string> logs = FilesIn(path_, ".log");
  ASSERT_EQ(logs.size(), 1u);
  const std::string bytes = ReadFile(logs[0]);
  WriteFile(logs[0], bytes.substr(0, bytes.size() - 100));
  const auto tier = Open();
  ASSERT_NE(tier, nullptr);
  EXPECT_EQ(All(*tier).size(), 499u);
}

TEST_F(DurableTierTest, ADamagedTableIsDataLoss) {
  Fill();
  Open().reset();  // a restart turns the log into a table
  const std::vector<std::string> tables = FilesIn(path_, ".sst");
  ASSERT_FALSE(tables.empty());
  for (const std::string& table : tables) {
    std::string bytes = ReadFile(table);
    for (std::size_t at = 0; at + 4096 < bytes.size(); at += 512) bytes[at] ^= 1;
    WriteFile(table, bytes);
  }
  absl::StatusOr<std::unique_ptr<DurableTier>> tier = DurableTier::Open(path_);
  const absl::Status status =
      tier.ok() ? (*tier)->ForEach([](const auto&) { return absl::OkStatus(); }) : tier.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

TEST_F(DurableTierTest, EntriesOutOfBoundsAreDataLoss) {
  const auto check = [&](std::string_view key, const StoredHeader& header, std::string_view value) {
    TempDir temp;
    const auto tier = DurableTier::Open(temp.path());
    (*tier)->SetVersionLimit(100);
    (*tier)->Put(key, header, value);
    EXPECT_TRUE((*tier)->Write().ok());
    return (*tier)->ForEach([](const auto&) { return absl::OkStatus(); }).code();
  };
  EXPECT_EQ(check("key", {.version = 99}, "value"), absl::StatusCode::kOk);
  EXPECT_EQ(check("", {.version = 1}, "value"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(check(std::string(kMaxKeySize + 1, 'k'), {.version = 1}, ""), absl::StatusCode::kDataLoss);
  EXPECT_EQ(check("key", {.version = 1}, std::string(kMaxValueSize + 1, 'v')), absl::StatusCode::kDataLoss);
  EXPECT_EQ(check("key", {.version = 0}, "value"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(check("key", {.version = 100}, "value"), absl::StatusCode::kDataLoss) << "not below the limit";
  EXPECT_EQ(check("key", {.version = 1, .expiry_ms = ~std::uint64_t{0}}, "value"), absl::StatusCode::kOk);
}

TEST_F(DurableTierTest, GetShowsTheLastWrite) {
  const std::string key(kMaxKeySize, '\xff');
  const std::string value = RandomBytes(kMaxSmallValueSize, 1);
  const auto check = [&](const DurableTier& tier) {
    EXPECT_EQ(Got(tier, "a"), "3:three");
    EXPECT_EQ(Got(tier, "b"), "2: until 5");
    EXPECT_EQ(Got(tier, "c"), "NOT_FOUND") << "deleted";
    EXPECT_EQ(Got(tier, "d"), "NOT_FOUND") << "never there";
    EXPECT_EQ(Got(tier, ""), "NOT_FOUND");
    EXPECT_EQ(Got(tier, key), "5:" + value);
    EXPECT_EQ(Got(tier, key.substr(1)), "NOT_FOUND");
    EXPECT_EQ(Got(tier, key + '\xff'), "NOT_FOUND");
  };
  {
    const auto tier = Open();
    EXPECT_EQ(Got(*tier, "a"), "NOT_FOUND") << "an empty store";
    tier->SetVersionLimit(100);
    tier->Put("a", {.version = 1}, "one");
    tier->Put("b", {.version = 2, .expiry_ms = 5}, "");
    tier->Put("c", {.version = 4}, "four");
    ASSERT_TRUE(tier->Write().ok());
    tier->Put("a", {.version = 3}, "three");
    tier->Delete("c");
    tier->Put(key, {.version = 5}, value);
    ASSERT_TRUE(tier->Write().ok());
    check(*tier);  // from memory
  }
  for (const std::size_t cache : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20}) {
    const auto tier = DurableTier::Open(path_, {.block_cache_bytes = cache});
    ASSERT_TRUE(tier.ok()) << tier.status();
    for (int i = 0; i < 2; ++i) check(**tier);  // from a table, then from the cache
  }
}

TEST_F(DurableTierTest, GetOfADamagedBlockIsDataLossAndOthersAreShown) {
  const std::vector<std::string> values = FillTable(100, 8000);
  Damage(values[50]);
  const auto tier = Open();
  ASSERT_NE(tier, nullptr);
  EXPECT_EQ(Got(*tier, TableKey(50)), "DATA_LOSS");
  EXPECT_EQ(Got(*tier, TableKey(50)), "DATA_LOSS") << "nor does the cache have it now";
  EXPECT_EQ(Got(*tier, TableKey(10)), "11:" + values[10]);
  EXPECT_EQ(Got(*tier, TableKey(90)), "91:" + values[90]);
  int absent = 0;  // keys that would be in the damaged block
  for (int i = 0; i < 100; ++i) absent += Got(*tier, TableKey(49) + std::to_string(i)) == "NOT_FOUND";
  EXPECT_GT(absent, 90) << "the filter knows without the block";
}

TEST_F(DurableTierTest, TheCacheHasWhatGetReadAndNotWhatWasIterated) {
  const std::vector<std::string> values = FillTable(100, 8000);
  const auto tier = Open();
  EXPECT_EQ(All(*tier).size(), 100u);
  EXPECT_EQ(Got(*tier, TableKey(10)), "11:" + values[10]);
  Damage(values[10]);
  Damage(values[90]);
  EXPECT_EQ(Got(*tier, TableKey(10)), "11:" + values[10]);
  EXPECT_EQ(Got(*tier, TableKey(90)), "DATA_LOSS");
}

// Each write raises the version limit, and stays below it.
TEST_F(DurableTierTest, GetWhileAnotherThreadWrites) {
  constexpr std::uint64_t kWrites = 20'000;
  const auto tier = Open();
  tier->SetVersionLimit(2);
  tier->Put("key", {.version = 1}, "1");
  ASSERT_TRUE(tier->Write().ok());
  std::atomic<std::uint64_t> written{1};
  const auto read = [&] {
    std::uint64_t last = 0;
    while (last < kWrites) {
      const std::uint64_t at_least = written.load();
      const absl::Status status = tier->Get("key", [&](const DurableTier::Entry& entry) {
        EXPECT_EQ(std::to_string(entry.header.version), entry.value);
        EXPECT_GE(entry.header.version, std::max(at_least, last));
        last = entry.header.version;
        return absl::OkStatus();
      });
      ASSERT_TRUE(status.ok()) << status;
    }
  };
  std::array<std::thread, 2> readers = {std::thread(read), std::thread(read)};
  for (std::uint64_t version = 2; version <= kWrites; ++version) {
    tier->SetVersionLimit(version + 1);
    tier->Put("key", {.version = version}, std::to_string(version));
    EXPECT_TRUE(tier->Write().ok());
    written.store(version);
  }
  for (std::thread& reader : readers) reader.join();
}

TEST_F(DurableTierTest, NoKeyAndOneKeyAreOneRangeAtLeast) {
  auto tier = Open();
  for (const std::size_t parts : {1u, 100u}) EXPECT_EQ(Counts(*tier, parts), (std::vector<std::size_t>{0}));
  for (const std::size_t size : {std::size_t{1}, kMaxSmallValueSize}) {
    tier->SetVersionLimit(100);
    tier->Put("key", {.version = 1}, RandomBytes(size, 1));
    ASSERT_TRUE(tier->Write().ok());
    for (int from = 0; from < 2; ++from) {  // from memory, then from a table
      EXPECT_THAT(Counts(*tier, 8), Contains(1u)) << size;
      tier.reset();
      tier = Open();
    }
  }
}

TEST_F(DurableTierTest, MorePartsThanKeys) {
  FillTable(5, kMaxSmallValueSize);
  const auto tier = Open();
  const std::vector<std::size_t> counts = Counts(*tier, 1000);
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 1u), 5) << "each of the large values has its own";
}

// Each key is a prefix of others, or differs from them in the last byte, which is zero or 0xff.
TEST_F(DurableTierTest, KeysOfEverySizeAtBorders) {
  std::set<std::string> keys;
  for (std::size_t size = kMinKeySize; size <= kMaxKeySize; size += size < 100 ? 1 : 37) {
    for (const char byte : {'\0', 'k', '\xff'}) {
      for (const char last : {'\0', byte, '\xff'}) keys.insert(std::string(size - 1, byte) + last);
    }
  }
  for (const char byte : {'\0', 'k', '\xff'}) keys.insert(std::string(kMaxKeySize, byte));
  auto tier = Open();
  tier->SetVersionLimit(2);
  for (const std::string& key : keys) tier->Put(key, {.version = 1}, RandomBytes(500, key.size()));
  ASSERT_TRUE(tier->Write().ok());
  for (int from = 0; from < 2; ++from) {  // from memory, then from a table
    for (const std::size_t parts : {2u, 3u, 7u, 64u, 1000u}) {
      // RocksDB estimates what is in memory by the heights of a skip list, which are random: a single border
      // may come out before all keys.
      EXPECT_GT(Counts(*tier, parts).size(), from == 0 && parts < 7 ? 0u : 1u);
    }
    tier.reset();
    tier = Open();
    EXPECT_EQ(All(*tier).size(), keys.size());
  }
}

TEST_F(DurableTierTest, ManyKeysInSeveralTablesAndInMemory) {
  constexpr std::size_t kKeys = 200'000;
  constexpr std::size_t kSessions = 4;
  std::unique_ptr<DurableTier> tier;
  for (std::size_t session = 0; session < kSessions; ++session) {
    tier.reset();
    tier = Open();  // opening turns the earlier writes into a table
    tier->SetVersionLimit(kKeys + 1);
    for (std::size_t i = session; i < kKeys; i += kSessions) {
      tier->Put(TableKey(i), {.version = i + 1}, TableKey(i * i % kKeys));
    }
    ASSERT_TRUE(tier->Write().ok());
  }
  EXPECT_GE(FilesIn(path_, ".sst").size(), kSessions - 1);
  Counts(*tier, 7);  // a quarter of the keys is in memory
  tier.reset();
  tier = Open();
  for (const std::size_t parts : {1u, 2u, 4u, 7u}) {
    const std::vector<std::size_t> counts = Counts(*tier, parts);
    EXPECT_EQ(counts.size(), parts);
    const double even = static_cast<double>(kKeys) / static_cast<double>(parts);
    for (const std::size_t count : counts) EXPECT_NEAR(static_cast<double>(count), even, even * 0.1) << parts;
  }
}

// The ranges do not show writes that come after the split, before the ranges are read or meanwhile.
TEST_F(DurableTierTest, RangesInThreadsShowTheStateAtTheirSplit) {
  FillTable(100, 8000);
  const auto tier = Open();
  const auto before = All(*tier);
  const std::vector<DurableTier::KeyRange> ranges = tier->Split(3);
  ASSERT_EQ(ranges.size(), 3u);
  std::vector<std::map<std::string, std::string>> shown(ranges.size());
  std::vector<std::thread> threads;
  std::atomic<std::size_t> done{0};
  for (std::uint64_t version = 101; version <= 400 || done < ranges.size(); ++version) {
    tier->SetVersionLimit(version + 1);
    if (version % 3 == 0) tier->Delete(TableKey(version % 150));
    if (version % 3 != 0) tier->Put(TableKey(version % 150), {.version = version}, "new");
    EXPECT_TRUE(tier->Write().ok());
    if (version < 300 || threads.size() == ranges.size()) continue;
    threads.emplace_back([&, i = threads.size()] {
      shown[i] = All(*tier, &ranges[i]);
      ++done;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 1; i < shown.size(); ++i) shown[0].merge(shown[i]);
  EXPECT_TRUE(shown[0] == before);  // too long to print
  EXPECT_FALSE(All(*tier) == before);
}

TEST_F(DurableTierTest, DamageIsDataLossFromItsRangeAlone) {
  const std::vector<std::string> values = FillTable(200, 8000);
  Damage(values[120]);
  const auto tier = Open();
  std::vector<absl::StatusCode> codes;
  std::set<std::string> shown;
  for (const DurableTier::KeyRange& range : tier->Split(4)) {
    codes.push_back(
        tier->ForEach(range, [&](const auto& e) { return shown.emplace(e.key), absl::OkStatus(); }).code());
  }
  using enum absl::StatusCode;
  EXPECT_EQ(codes, (std::vector<absl::StatusCode>{kOk, kOk, kDataLoss, kOk}));
  EXPECT_TRUE(shown.contains(TableKey(119)) && !shown.contains(TableKey(120))) << "up to the damage";
}

TEST_F(DurableTierTest, AnErrorOfTheCallerEndsTheIteration) {
  FillTable(100, 8000);
  const auto tier = Open();
  int shown = 0;
  std::string last;
  const auto take = [&](const auto& e) { return ++shown, last = e.key, absl::AbortedError("enough"); };
  EXPECT_EQ(tier->Get(TableKey(7), take), absl::AbortedError("enough"));
  EXPECT_EQ(tier->ForEach(take), absl::AbortedError("enough"));
  EXPECT_EQ(tier->ForEachFrom(tier->Split(3)[1], TableKey(40), take), absl::AbortedError("enough"));
  EXPECT_EQ(last, TableKey(40));
  EXPECT_EQ(tier->ForEachFrom(TableKey(50), take), absl::AbortedError("enough"));
  EXPECT_EQ(shown, 4);
  EXPECT_EQ(last, TableKey(50));
}

TEST_F(DurableTierTest, AFileThatMayNotBeReadIsDenied) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file; data_dir_test denies it to another user";
  Fill();
  ASSERT_EQ(chmod((path_ + "/CURRENT").c_str(), 0), 0);
  const absl::Status status = OpenStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
}

}  // namespace
}  // namespace remora
