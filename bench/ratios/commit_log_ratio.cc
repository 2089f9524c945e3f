// Measures the cost of appending groups of writes to the commit log, by both of its writers, beside RocksDB,
// LMDB and a bare pwrite. They take turns in one run, in one folder. Prints medians, and the medians of the
// ratios of each round.
#include <fcntl.h>
#ifdef REMORA_BENCH_LMDB
#include <lmdb.h>
#include <sys/stat.h>
#endif
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/ratios/ratio.h"
#include "store/base/check.h"
#include "store/durable/commit_log/commit_log.h"
#include "tools/command_line/command_line.h"

namespace remora {
namespace {

using Steady = std::chrono::steady_clock;

struct GroupOptions {
  std::string dir = "commit_log_ratio.data";
  std::size_t records = 200'000;
  std::size_t syncs = 100;
  std::size_t rounds = 5;
  std::size_t keys = 1'000'000;
  std::size_t value_size = 64;
};

constexpr std::size_t kKeySize = 23;
constexpr std::size_t kMaxGroup = 16;

/// Keys of a uniform choice, as YCSB spells them.
class KeySource {
 public:
  explicit KeySource(std::size_t keys) : keys_(keys) {}

  /// Fills the first `count`.
  const std::array<std::string, kMaxGroup>& Next(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      std::uint64_t number = (state_ >> 33) % keys_;
      for (std::size_t digit = kKeySize; digit > 4; --digit) {
        names_[i][digit - 1] = static_cast<char>('0' + number % 10);
        number /= 10;
      }
    }
    return names_;
  }

 private:
  const std::size_t keys_;
  std::uint64_t state_ = 1;
  std::array<std::string, kMaxGroup> names_ = [] {
    std::array<std::string, kMaxGroup> names;
    names.fill("user" + std::string(kKeySize - 4, '0'));
    return names;
  }();
};

/// Something that takes groups of writes.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual void Write(const std::array<std::string, kMaxGroup>& keys, std::size_t count, bool sync) = 0;
};

class LogContestant final : public Contestant {
 public:
  LogContestant(const GroupOptions& options, LogWriterKind writer, const std::string& dir)
      : value_(options.value_size, 'v') {
    std::filesystem::create_directory(dir);
    auto log = CommitLog::Open({.dir = dir, .incarnation = 1, .writer = writer},
                               [](const LogGroup&) { return absl::OkStatus(); });
    REMORA_CHECK(log.ok());
    log_ = *std::move(log);
  }
  void Write(const std::array<std::string, kMaxGroup>& keys, std::size_t count, bool sync) override {
    for (std::size_t i = 0; i < count; ++i) {
      entries_[i] = {.version = ++version_, .key = keys[i], .value = value_, .request = {1, version_}};
    }
    const auto end = log_->Append({entries_.data(), count});
    REMORA_CHECK(end.ok());
    if (sync) REMORA_CHECK(log_->Sync().ok());
    // Recycles all files, as if an applier had applied every group at once.
    if ((++groups_ & 0xfff) == 0) log_->Recycle(*end);
  }

 private:
  const std::string value_;
  std::unique_ptr<CommitLog> log_;
  std::array<LogEntry, kMaxGroup> entries_;
  std::uint64_t version_ = 0;
  std::uint64_t groups_ = 0;
};

class RocksdbContestant final : public Contestant {
 public:
  RocksdbContestant(const GroupOptions& options, const std::string& dir) : value_(options.value_size, 'v') {
    rocksdb::Options raw;
    raw.create_if_missing = true;
    rocksdb::DB* opened = nullptr;
    REMORA_CHECK(rocksdb::DB::Open(raw, dir, &opened).ok());
    db_.reset(opened);
  }
  void Write(const std::array<std::string, kMaxGroup>& keys, std::size_t count, bool sync) override {
    rocksdb::WriteOptions how;
    how.sync = sync;
    if (count == 1) {
      REMORA_CHECK(db_->Put(how, keys[0], value_).ok());
      return;
    }
    batch_.Clear();
    for (std::size_t i = 0; i < count; ++i) REMORA_CHECK(batch_.Put(keys[i], value_).ok());
    REMORA_CHECK(db_->Write(how, &batch_).ok());
  }

 private:
  const std::string value_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteBatch batch_;
};

#ifdef REMORA_BENCH_LMDB
class LmdbContestant final : public Contestant {
 public:
  LmdbContestant(const GroupOptions& options, const std::string& dir, bool syncs)
      : value_(options.value_size, 'v') {
    REMORA_CHECK(mkdir(dir.c_str(), 0700) == 0 && mdb_env_create(&environment_) == 0);
    REMORA_CHECK(mdb_env_set_mapsize(environment_, std::size_t{4} << 30) == 0);
    const unsigned flags = MDB_NORDAHEAD | (syncs ? 0 : MDB_WRITEMAP | MDB_NOSYNC);
    REMORA_CHECK(mdb_env_open(environment_, dir.c_str(), flags, 0600) == 0);
    MDB_txn* const opening = Begin();
    REMORA_CHECK(mdb_dbi_open(opening, nullptr, 0, &table_) == 0 && mdb_txn_commit(opening) == 0);
  }
  ~LmdbContestant() override { mdb_env_close(environment_); }
  LmdbContestant(const LmdbContestant&) = delete;
  LmdbContestant& operator=(const LmdbContestant&) = delete;

  // The environment says whether a commit syncs.
  void Write(const std::array<std::string, kMaxGroup>& keys, std::size_t count, bool /*sync*/) override {
    MDB_txn* const writing = Begin();
    for (std::size_t i = 0; i < count; ++i) {
      MDB_val key = {kKeySize, const_cast<char*>(keys[i].data())};
      MDB_val value = {value_.size(), const_cast<char*>(value_.data())};
      REMORA_CHECK(mdb_put(writing, table_, &key, &value, 0) == 0);
    }
    REMORA_CHECK(mdb_txn_commit(writing) == 0);
  }

 private:
  MDB_txn* Begin() const {
    MDB_txn* begun = nullptr;
    REMORA_CHECK(mdb_txn_begin(environment_, nullptr, 0, &begun) == 0);
    return begun;
  }

  const std::string value_;
  MDB_env* environment_ = nullptr;
  MDB_dbi table_ = 0;
};
#endif

/// The bytes of the log's groups, to one file that is written round and round.
class FileContestant final : public Contestant {
 public:
  FileContestant(const GroupOptions& options, const std::string& path)
      : record_(24 + 24 + (kKeySize + options.value_size + 7) / 8 * 8),
        bytes_(64 + kMaxGroup * record_, 'v'),
        fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    REMORA_CHECK(fd_ >= 0);
    const std::string zeros(std::size_t{1} << 20, '\0');
    for (std::size_t at = 0; at < kSize; at += zeros.size()) {
      REMORA_CHECK(pwrite(fd_, zeros.data(), zeros.size(), static_cast<off_t>(at)) ==
                   static_cast<ssize_t>(zeros.size()));
    }
    REMORA_CHECK(fdatasync(fd_) == 0);
  }
  ~FileContestant() override { close(fd_); }
  FileContestant(const FileContestant&) = delete;
  FileContestant& operator=(const FileContestant&) = delete;

  void Write(const std::array<std::string, kMaxGroup>& /*keys*/, std::size_t count, bool sync) override {
    const std::size_t size = 64 + count * record_;
    if (at_ + size > kSize) at_ = 0;
    REMORA_CHECK(pwrite(fd_, bytes_.data(), size, static_cast<off_t>(at_)) == static_cast<ssize_t>(size));
    at_ += size;
    if (sync) REMORA_CHECK(fdatasync(fd_) == 0);
  }

 private:
  static constexpr std::size_t kSize = std::size_t{64} << 20;

  const std::size_t record_;
  const std::string bytes_;
  const int fd_;
  std::size_t at_ = 0;
};

double ThreadCpuNanoseconds() {
  timespec now{};
  REMORA_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Nanoseconds of each call.
struct Cost {
  double wall = 0;  // median of the means of some calls at a time
  double cpu = 0;   // of the calling thread, mean of all: other load on the machine does not count
};

Cost CostOfEach(std::size_t calls, std::size_t at_once, const std::function<void()>& call) {
  std::vector<double> means;
  const double cpu = ThreadCpuNanoseconds();
  auto start = Steady::now();
  for (std::size_t done = 0; done < calls; done += at_once) {
    for (std::size_t i = 0; i < at_once; ++i) call();
    const auto now = Steady::now();
    means.push_back(std::chrono::duration<double, std::nano>(now - start).count() /
                    static_cast<double>(at_once));
    start = now;
  }
  const auto made = static_cast<double>(means.size() * at_once);
  return {bench::MedianOf(std::move(means)), (ThreadCpuNanoseconds() - cpu) / made};
}

struct Line {
  std::string name;
  Contestant* contestant;
  std::vector<double> wall{};
  std::vector<double> cpu{};
};

std::string RatiosOf(const std::vector<double>& ours, const std::vector<double>& first) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / first[i]);
  std::sort(ratios.begin(), ratios.end());
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.2f (%.2f to %.2f)", bench::MedianOf(ratios), ratios.front(),
                ratios.back());
  return text.data();
}

/// One table: all lines in turns; the medians of the rounds, and of the ratios of each round to the first
/// line.
void Compare(const GroupOptions& options, const std::string& title, std::vector<Line> lines,
             std::size_t count, bool sync) {
  KeySource keys(options.keys);
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (Line& line : lines) {
      const Cost cost = CostOfEach(sync ? options.syncs : options.records / count, sync ? 1 : 256 / count,
                                   [&] { line.contestant->Write(keys.Next(count), count, sync); });
      line.wall.push_back(cost.wall);
      line.cpu.push_back(cost.cpu);
    }
  }
  std::printf("%-28s %10s  %-28s %10s  %s\n", title.c_str(), "ns wall", "of the first", "ns CPU",
              "of the first");
  for (const Line& line : lines) {
    std::printf("  %-26s %10.0f  %-28s %10.0f  %s\n", line.name.c_str(), bench::MedianOf(line.wall),
                RatiosOf(line.wall, lines[0].wall).c_str(), bench::MedianOf(line.cpu),
                RatiosOf(line.cpu, lines[0].cpu).c_str());
  }
}

int Main(int argc, char** argv) {
  GroupOptions options;
  command_line::CommandLine line(
      "commit_log_ratio: groups of writes to the commit log, beside RocksDB, LMDB and a bare file.");
  line.Add("--dir", options.dir, "a folder to be made, and removed").ShowDefault();
  line.Add("--records", options.records, "that are appended in each turn").ShowDefault().Positive();
  line.Add("--syncs", options.syncs, "in each turn").ShowDefault().Positive();
  line.Add("--rounds", options.rounds, "of all measurements").ShowDefault().Positive();
  line.Add("--keys", options.keys, "that are written, by a uniform choice").ShowDefault().Positive();
  line.Add("--value_size", options.value_size, "bytes").ShowDefault();
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  const std::string& dir = options.dir;
  REMORA_CHECK(std::filesystem::create_directory(dir));
  {
    LogContestant mapped(options, LogWriterKind::kMapped, dir + "/mapped");
    LogContestant written(options, LogWriterKind::kWrite, dir + "/written");
    FileContestant file(options, dir + "/file");
    RocksdbContestant rocks(options, dir + "/rocksdb");
    std::vector<Line> lines = {{"commit log, mapped", &mapped},
                               {"commit log, pwrite", &written},
                               {"file, pwrite", &file},
                               {"RocksDB, log and memtable", &rocks}};
    std::vector<Line> synced = lines;
#ifdef REMORA_BENCH_LMDB
    LmdbContestant lmdb(options, dir + "/lmdb", false);
    LmdbContestant lmdb_synced(options, dir + "/lmdb_synced", true);
    lines.push_back({"LMDB, NOSYNC", &lmdb});
    synced.push_back({"LMDB, sync", &lmdb_synced});
#endif
    Compare(options, "append, groups of 1", lines, 1, false);
    Compare(options, "append, groups of 16", lines, kMaxGroup, false);
    Compare(options, "append and sync, groups of 1", synced, 1, true);
    Compare(options, "append and sync, groups of 16", synced, kMaxGroup, true);
  }
  std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
