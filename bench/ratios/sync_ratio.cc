// Cost of having the disk take each write before it is acknowledged, beside the cost of RocksDB itself:
// interleaved, in one run, on databases in the same folder. Prints medians, and their ratios.
#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/base/check.h"
#include "store/server_store.h"
#include "tools/command_line/command_line.h"

namespace remora {
namespace {

using Steady = std::chrono::steady_clock;

double Seconds(Steady::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string KeyOf(std::size_t thread, std::size_t i) {
  return "key " + std::to_string(thread) + " " + std::to_string(i % 1000);
}

// Writes per second of `threads` writers that go on for `seconds`; `write` gets a key.
double Rate(std::size_t threads, double seconds, const std::function<void(const std::string&)>& write) {
  std::atomic<std::uint64_t> done = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  const auto start = Steady::now();
  for (std::size_t t = 0; t < threads; ++t) {
    writers.emplace_back([&, t] {
      for (std::size_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        write(KeyOf(t, i));
        done.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& writer : writers) writer.join();
  return static_cast<double>(done.load()) / Seconds(Steady::now() - start);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class RawFile {
 public:
  explicit RawFile(const std::string& path) : fd_(::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)) {
    REMORA_CHECK(fd_ >= 0);
  }
  ~RawFile() { ::close(fd_); }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  void Write(const std::string& bytes) const {
    REMORA_CHECK(::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  void Sync() const { REMORA_CHECK(::fdatasync(fd_) == 0); }

 private:
  const int fd_;
};

int Main(int argc, char** argv) {
  std::string dir = "sync_ratio.data";
  double seconds = 1;
  std::size_t rounds = 5;
  std::size_t writers = 64;
  std::size_t size = 100;
  command_line::CommandLine line(
      "sync_ratio: synced writes of a store, beside RocksDB's own and the bare disk's.");
  line.Add("--dir", dir, "a folder to be made, and removed").ShowDefault();
  line.Add("--seconds", seconds, "of each measurement").ShowDefault().Positive();
  line.Add("--rounds", rounds, "of all measurements").ShowDefault().Positive();
  line.Add("--writers", writers, "threads").ShowDefault().Positive();
  line.Add("--value_size", size, "bytes").ShowDefault();
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  REMORA_CHECK(std::filesystem::create_directory(dir));
  const std::string value(size, 'v');
  {
    StoreOptions options;
    options.memory_size = std::size_t{256} << 20;
    options.durability = Durability::kSynced;
    options.data_dir = dir + "/store";
    auto store = ServerStore::Open(options);
    REMORA_CHECK(store.ok());
    rocksdb::Options raw;
    raw.create_if_missing = true;
    rocksdb::DB* opened = nullptr;
    REMORA_CHECK(rocksdb::DB::Open(raw, dir + "/rocksdb", &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    const RawFile file(dir + "/file");
    rocksdb::WriteOptions synced;
    synced.sync = true;

    const auto put = [&](Durability level) {
      return [&, level](const std::string& key) {
        REMORA_CHECK((*store)->Put(key, value, {.durability = level}).ok());
      };
    };
    const auto raw_put = [&](const rocksdb::WriteOptions& how) {
      return [&, how](const std::string& key) { REMORA_CHECK(db->Put(how, key, value).ok()); };
    };
    // Each operation with a sync of its own: nobody else's write comes along.
    std::mutex one_at_a_time;
    const auto alone = [&](const std::string& key) {
      const std::lock_guard lock(one_at_a_time);
      REMORA_CHECK(db->Put(synced, key, value).ok());
    };
    double group = 0;
    struct Measured {
      std::string name;
      std::function<double()> rate;
      std::vector<double> rates{};
    };
    std::vector<Measured> all = {
        {"store, synced, all writers",
         [&] {
           const std::uint64_t syncs = (*store)->Read(Counter::kSyncs);
           const std::uint64_t before = (*store)->Read(Counter::kSyncedWrites);
           const double rate = Rate(writers, seconds, put(Durability::kSynced));
           group = static_cast<double>((*store)->Read(Counter::kSyncedWrites) - before) /
                   static_cast<double>((*store)->Read(Counter::kSyncs) - syncs);
           return rate;
         }},
        {"RocksDB, sync, all writers (its group commit)",
         [&] { return Rate(writers, seconds, raw_put(synced)); }},
        {"RocksDB, one sync per operation", [&] { return Rate(writers, seconds, alone); }},
        {"store, synced, one writer", [&] { return Rate(1, seconds, put(Durability::kSynced)); }},
        {"RocksDB, sync, one writer", [&] { return Rate(1, seconds, raw_put(synced)); }},
        {"file, write and fdatasync",
         [&] {
           return Rate(1, seconds, [&](const std::string&) {
             file.Write(value);
             file.Sync();
           });
         }},
        {"store, logged, one writer", [&] { return Rate(1, seconds, put(Durability::kLogged)); }},
        {"RocksDB, without sync, one writer", [&] { return Rate(1, seconds, raw_put({})); }},
        {"file, write", [&] { return Rate(1, seconds, [&](const std::string&) { file.Write(value); }); }},
        {"store, memory, one writer", [&] { return Rate(1, seconds, put(Durability::kMemory)); }},
    };
    for (std::size_t round = 0; round < rounds; ++round) {
      for (Measured& one : all) one.rates.push_back(one.rate());
    }
    for (const Measured& one : all) {
      const double rate = Median(one.rates);
      std::printf("%-48s %10.0f /s %10.1f us each\n", one.name.c_str(), rate, 1e6 / rate);
    }
    const auto ratio = [&](std::size_t a, std::size_t b) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < rounds; ++i) ratios.push_back(all[a].rates[i] / all[b].rates[i]);
      return Median(ratios);
    };
    std::printf("store, all writers / one sync per operation: %.1f\n", ratio(0, 2));
    std::printf("store, all writers / RocksDB's group commit: %.2f\n", ratio(0, 1));
    std::printf("store, all writers: writes for each sync, in the last round: %.1f\n", group);
  }
  std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
