// Measures the CPU time, for each distinct key, of moving groups of the commit log to RocksDB: by a Put each,
// as one sorted batch, and as an ingested table. They take turns on databases of the same keys. The CPU time
// is that of the whole process, so flushes count.
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "store/base/check.h"
#include "store/durable/tier_log/log_applier.h"
#include "tools/command_line/command_line.h"

namespace remora {
namespace {

struct ApplyOptions {
  std::string dir = "applier_ratio.data";
  std::size_t rounds = 5;
  std::size_t keys = 1'000'000;
  std::size_t records = 500'000;
  std::size_t value_size = 64;
};

double ProcessCpuSeconds() {
  timespec now{};
  REMORA_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

class AppliedDatabase {
 public:
  explicit AppliedDatabase(const std::string& dir) : dir_(dir) {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.atomic_flush = true;
    rocksdb::DB* db = nullptr;
    REMORA_CHECK(rocksdb::DB::Open(options, dir, {{"default", {}}, {"meta", {}}}, &handles_, &db).ok());
    db_.reset(db);
  }
  ~AppliedDatabase() {
    for (rocksdb::ColumnFamilyHandle* const handle : handles_) {
      if (!db_->DestroyColumnFamilyHandle(handle).ok()) std::abort();
    }
  }
  AppliedDatabase(const AppliedDatabase&) = delete;
  AppliedDatabase& operator=(const AppliedDatabase&) = delete;

  void Apply(const std::vector<LogGroup>& groups, std::optional<ApplyWay> way) {
    if (!way) {
      PutEach(groups);
      return;
    }
    LogApplier applier(
        {.db = db_.get(), .entries = handles_[0], .meta = handles_[1], .way = *way, .dir = dir_}, Lsn{});
    for (const LogGroup& group : groups) applier.Add(group);
    REMORA_CHECK(applier.Apply().ok() && db_->Flush({}, handles_).ok());
  }

 private:
  void PutEach(const std::vector<LogGroup>& groups) {
    rocksdb::WriteOptions how;
    how.disableWAL = true;
    LogEntry entry;
    for (const LogGroup& group : groups) {
      LogEntries entries = group.entries();
      while (entries.Next(&entry)) {
        const rocksdb::Slice key(entry.key.data(), entry.key.size());
        REMORA_CHECK(db_->Put(how, handles_[0], key, {entry.value.data(), entry.value.size()}).ok());
      }
    }
    REMORA_CHECK(db_->Flush({}, handles_).ok());
  }

  const std::string dir_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

/// Groups of one record, and how many distinct keys they have.
struct MadeLog {
  std::vector<std::uint64_t> words;
  std::vector<LogGroup> groups{};
  std::size_t distinct = 0;
};

MadeLog MakeLog(const ApplyOptions& options) {
  const std::string value(options.value_size, 'v');
  const std::uint64_t words_each = (64 + 24 + (23 + options.value_size + 7) / 8 * 8) / 8;
  MadeLog log = {.words = std::vector<std::uint64_t>(options.records * words_each)};
  std::unordered_set<std::uint64_t> distinct;
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < options.records; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t number = (state >> 33) % options.keys;
    distinct.insert(number);
    const std::string digits = std::to_string(number);
    const std::string key = "user" + std::string(19 - digits.size(), '0') + digits;
    const LogEntry entry = {.version = i + 1, .key = key, .value = value};
    char* const at = reinterpret_cast<char*>(&log.words[i * words_each]);
    const Lsn lsn{(1 + i) * words_each * 8};
    EncodeLogGroup({&entry, 1}, words_each * 8,
                   {.lsn = lsn, .incarnation = 1, .previous = 0, .synced_to = {}}, at);
    const auto group = VerifyLogGroup({at, words_each * 8}, lsn);
    REMORA_CHECK(group.has_value());
    log.groups.push_back(*group);
  }
  log.distinct = distinct.size();
  return log;
}

int Main(int argc, char** argv) {
  ApplyOptions options;
  command_line::CommandLine line("applier_ratio: moves of a commit log to RocksDB, by each way.");
  line.Add("--dir", options.dir, "a folder to be made, and removed").ShowDefault();
  line.Add("--rounds", options.rounds, "of all measurements").ShowDefault().Positive();
  line.Add("--keys", options.keys, "that are written, by a uniform choice").ShowDefault().Positive();
  line.Add("--records", options.records, "that are moved at once").ShowDefault().Positive();
  line.Add("--value_size", options.value_size, "bytes").ShowDefault();
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  REMORA_CHECK(std::filesystem::create_directory(options.dir));
  const MadeLog log = MakeLog(options);
  const std::vector<std::pair<const char*, std::optional<ApplyWay>>> ways = {
      {"a Put each, memtable, flush", std::nullopt},
      {"sorted batch, memtable, flush", ApplyWay::kInsert},
      {"table, ingested", ApplyWay::kIngest}};
  std::vector<std::vector<double>> each(ways.size());
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::string dir = options.dir + "/" + std::to_string(i);
      {
        AppliedDatabase database(dir);
        const double start = ProcessCpuSeconds();
        database.Apply(log.groups, ways[i].second);
        each[i].push_back((ProcessCpuSeconds() - start) * 1e9 / static_cast<double>(log.distinct));
      }
      std::filesystem::remove_all(dir);
    }
  }
  std::printf("%zu records of %zu distinct keys\n", options.records, log.distinct);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < options.rounds; ++round) {
      ratios.push_back(each[i][round] / each[0][round]);
    }
    std::sort(ratios.begin(), ratios.end());
    std::sort(each[i].begin(), each[i].end());
    std::printf("  %-30s %8.0f ns CPU for each distinct key, %.2f of the first (%.2f to %.2f)\n",
                ways[i].first, each[i][options.rounds / 2], ratios[options.rounds / 2], ratios.front(),
                ratios.back());
  }
  std::filesystem::remove_all(options.dir);
  return 0;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
