// Cost of having the disk take each write before it is acknowledged, beside the cost of RocksDB itself:
// interleaved, in one run, on databases in the same folder. Prints medians, and their ratios.
#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/ratios/ratio.h"
#include "store/base/check.h"
#include "store/server_store.h"
#include "tools/command_line/command_line.h"

namespace remora {
namespace {

using Steady = std::chrono::steady_clock;
using Put = std::function<void(const std::string& key)>;

double Seconds(Steady::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string KeyOf(std::size_t thread, std::size_t i) {
  return "key " + std::to_string(thread) + " " + std::to_string(i % 1000);
}

// Puts per second of `threads` writers that go on for `seconds`.
double Rate(std::size_t threads, double seconds, const Put& put) {
  std::atomic<std::uint64_t> done = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  const auto start = Steady::now();
  for (std::size_t t = 0; t < threads; ++t) {
    writers.emplace_back([&, t] {
      for (std::size_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        put(KeyOf(t, i));
        done.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& writer : writers) writer.join();
  return static_cast<double>(done.load()) / Seconds(Steady::now() - start);
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

struct Settings {
  std::string dir = "sync_ratio.data";
  double seconds = 1;
  std::size_t rounds = 5;
  std::size_t writers = 64;
  std::size_t size = 100;
};

/// Returns the exit status if there is nothing to measure.
std::optional<int> ReadSettings(int argc, char** argv, Settings* settings) {
  command_line::CommandLine line(
      "sync_ratio: synced writes of a store, beside RocksDB's own and the bare disk's.");
  line.Add("--dir", settings->dir, "a folder to be made, and removed").ShowDefault();
  line.Add("--seconds", settings->seconds, "of each measurement").ShowDefault().Positive();
  line.Add("--rounds", settings->rounds, "of all measurements").ShowDefault().Positive();
  line.Add("--writers", settings->writers, "threads").ShowDefault().Positive();
  line.Add("--value_size", settings->size, "bytes").ShowDefault();
  return line.Parse(argc, argv);
}

/// A store, a RocksDB and a file, all on one disk. Each put is of the same value.
class Targets {
 public:
  explicit Targets(const Settings& settings) : value_(settings.size, 'v'), file_(settings.dir + "/file") {
    StoreOptions options;
    options.memory_size = std::size_t{256} << 20;
    options.durability = Durability::kSynced;
    options.data_dir = settings.dir + "/store";
    auto store = ServerStore::Open(options);
    REMORA_CHECK(store.ok());
    store_ = *std::move(store);
    rocksdb::Options raw;
    raw.create_if_missing = true;
    rocksdb::DB* opened = nullptr;
    REMORA_CHECK(rocksdb::DB::Open(raw, settings.dir + "/rocksdb", &opened).ok());
    rocksdb_.reset(opened);
  }

  Put PutInStore(Durability level) {
    return [this, level](const std::string& key) {
      REMORA_CHECK(store_->Put(key, value_, {.durability = level}).ok());
    };
  }
  Put PutInRocksDb(bool is_synced) {
    rocksdb::WriteOptions how;
    how.sync = is_synced;
    return [this, how](const std::string& key) { REMORA_CHECK(rocksdb_->Put(how, key, value_).ok()); };
  }
  /// Each put has a sync of its own: no other thread's put comes along.
  Put PutInRocksDbAlone() {
    return [this, put = PutInRocksDb(true)](const std::string& key) {
      const std::lock_guard lock(one_at_a_time_);
      put(key);
    };
  }
  Put WriteToFile(bool is_synced) {
    return [this, is_synced](const std::string&) {
      file_.Write(value_);
      if (is_synced) file_.Sync();
    };
  }
  std::uint64_t Read(Metric counter) const { return store_->Read(counter); }

 private:
  const std::string value_;
  const RawFile file_;
  std::unique_ptr<ServerStore> store_;
  std::unique_ptr<rocksdb::DB> rocksdb_;
  std::mutex one_at_a_time_;
};

struct Measurement {
  std::string name;
  std::size_t writers;
  Put put;
  std::vector<double> rates{};
};

// Places in the list of measurements.
enum : std::size_t { kStoreGroups, kRocksDbGroups, kRocksDbAlone };

std::vector<Measurement> MeasurementsOf(Targets& targets, std::size_t writers) {
  return {
      {"store, synced, all writers", writers, targets.PutInStore(Durability::kSynced)},
      {"RocksDB, sync, all writers (its group commit)", writers, targets.PutInRocksDb(true)},
      {"RocksDB, one sync per operation", writers, targets.PutInRocksDbAlone()},
      {"store, synced, one writer", 1, targets.PutInStore(Durability::kSynced)},
      {"RocksDB, sync, one writer", 1, targets.PutInRocksDb(true)},
      {"file, write and fdatasync", 1, targets.WriteToFile(true)},
      {"store, logged, one writer", 1, targets.PutInStore(Durability::kLogged)},
      {"RocksDB, without sync, one writer", 1, targets.PutInRocksDb(false)},
      {"file, write", 1, targets.WriteToFile(false)},
      {"store, memory, one writer", 1, targets.PutInStore(Durability::kMemory)},
  };
}

double MedianRatio(const Measurement& a, const Measurement& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.rates.size(); ++i) ratios.push_back(a.rates[i] / b.rates[i]);
  return bench::MedianOf(std::move(ratios));
}

void Measure(const Settings& settings) {
  Targets targets(settings);
  std::vector<Measurement> all = MeasurementsOf(targets, settings.writers);
  double group = 0;
  for (std::size_t round = 0; round < settings.rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint64_t syncs = targets.Read(Metric::kSyncs);
      const std::uint64_t writes = targets.Read(Metric::kSyncedWrites);
      all[i].rates.push_back(Rate(all[i].writers, settings.seconds, all[i].put));
      if (i != kStoreGroups) continue;
      group = static_cast<double>(targets.Read(Metric::kSyncedWrites) - writes) /
              static_cast<double>(targets.Read(Metric::kSyncs) - syncs);
    }
  }
  for (const Measurement& one : all) {
    const double rate = bench::MedianOf(one.rates);
    std::printf("%-48s %10.0f /s %10.1f us each\n", one.name.c_str(), rate, 1e6 / rate);
  }
  std::printf("store, all writers / one sync per operation: %.1f\n",
              MedianRatio(all[kStoreGroups], all[kRocksDbAlone]));
  std::printf("store, all writers / RocksDB's group commit: %.2f\n",
              MedianRatio(all[kStoreGroups], all[kRocksDbGroups]));
  std::printf("store, all writers: writes for each sync, in the last round: %.1f\n", group);
}

int Main(int argc, char** argv) {
  Settings settings;
  if (const std::optional<int> status = ReadSettings(argc, argv, &settings)) return *status;
  REMORA_CHECK(std::filesystem::create_directory(settings.dir));
  Measure(settings);
  std::filesystem::remove_all(settings.dir);
  return 0;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
