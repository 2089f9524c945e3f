// Times of a restart, with one thread and with several:
// - to show all entries of the durable tier, as one iteration and as ranges that a thread each shows;
// - to open the tier, and a store on it that serves while it loads;
// - to load it with as many threads, into memory that was taken from the system before;
// - to take that memory.
//
// Measured in turns, so that whatever disturbs one disturbs the other. The files were just written, so the
// system has them in memory: this is what the CPU does, and no disk.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/ratios/filled_tier.h"
#include "bench/ratios/ratio.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"
#include "store/durable/tier.h"
#include "store/format/memory/record.h"
#include "store/memory_plan.h"
#include "store/server_store.h"
#include "tools/command_line/command_line.h"

namespace remora::bench {
namespace {

struct Flags : TierFlags {
  std::vector<std::size_t> parts = {1, 2, 4};
};

/// The least work of a restart for an entry: to look at each byte, and know where the key belongs.
class Reader {
 public:
  void Read(const DurableTier::Entry& entry) {
    ++keys_;
    hash_ += HashKey(entry.key) ^ HashValue(entry.value.data(), entry.value.size());
  }
  std::uint64_t keys() const { return keys_; }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t keys_ = 0;
  std::uint64_t hash_ = 0;
};

struct Measured {
  std::size_t parts = 0;  // 0: the iteration without ranges
  std::vector<double> seconds;
  std::vector<double> open_seconds;   // of the tier
  std::vector<double> serve_seconds;  // to open a store, which serves from then on
  std::vector<double> load_seconds;   // from then on, until all is loaded, by as many threads
  std::vector<double> page_seconds;   // of the memory that it is given
  double split_seconds = 0;           // of the last round
  std::uint64_t largest = 0;          // keys of the largest range
};

class RestartScan {
 public:
  RestartScan(const Flags& flags, std::string data, const Clock& clock)
      : flags_(flags), data_(std::move(data)), clock_(clock) {}

  absl::Status Round(Measured& measured) {
    {
      const TimePoint begin = clock_.Now();
      REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DurableTier> tier, DurableTier::Open(data_));
      measured.open_seconds.push_back(SecondsSince(begin));
      REMORA_RETURN_IF_ERROR(Scan(*tier, measured));
    }
    return measured.parts == 0 ? absl::OkStatus() : Load(measured);
  }

 private:
  double SecondsSince(TimePoint begin) const {
    return std::chrono::duration<double>(clock_.Now() - begin).count();
  }

  absl::Status Scan(const DurableTier& tier, Measured& measured) {
    const TimePoint begin = clock_.Now();
    std::vector<Reader> readers(1);
    if (measured.parts == 0) {
      REMORA_RETURN_IF_ERROR(tier.ForEach([&](const DurableTier::Entry& entry) {
        readers[0].Read(entry);
        return absl::OkStatus();
      }));
    } else {
      const std::vector<DurableTier::KeyRange> ranges = tier.Split(measured.parts);
      measured.split_seconds = SecondsSince(begin);
      readers.resize(ranges.size());
      REMORA_RETURN_IF_ERROR(ShowInThreads(tier, ranges, readers));
    }
    measured.seconds.push_back(SecondsSince(begin));
    return Check(readers, measured);
  }

  /// Loads into memory that is there already: the time to get it from the system differs by the system's mood
  /// and is measured by itself.
  absl::Status Load(Measured& measured) {
    StoreOptions options;
    options.durability = Durability::kLogged;
    options.data_dir = data_;
    options.loading = Loading::kInBackground;
    options.load_threads = measured.parts;
    constexpr std::size_t kBeside = 160;  // of index, header and rounding, with some space left
    options.memory_size = kMinMemorySize * 2 + flags_.keys * (flags_.value_size * 9 / 8 + kBeside);
    REMORA_ASSIGN_OR_RETURN(const std::size_t region_size, RegionSize(options.memory_size));
    REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<AnonymousMemory> memory, AnonymousMemory::Map(region_size));
    const TimePoint before_pages = clock_.Now();
    std::memset(memory->bytes().data(), 0, region_size);
    measured.page_seconds.push_back(SecondsSince(before_pages));
    const TimePoint begin = clock_.Now();
    REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<ServerStore> store,
                            ServerStore::Open(options, memory->bytes()));
    measured.serve_seconds.push_back(SecondsSince(begin));
    const TimePoint serves = clock_.Now();
    while (store->Read(Metric::kLoading) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    measured.load_seconds.push_back(SecondsSince(serves));
    if (store->Read(Metric::kKeys) == flags_.keys) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("load: a store loaded ", store->Read(Metric::kKeys), " keys"));
  }

  absl::Status ShowInThreads(const DurableTier& tier, const std::vector<DurableTier::KeyRange>& ranges,
                             std::vector<Reader>& readers) {
    std::vector<absl::Status> statuses(ranges.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      threads.emplace_back([&, i] {
        Reader reader;  // and not readers[i]: threads would write to one cache line
        statuses[i] = tier.ForEach(ranges[i], [&](const DurableTier::Entry& entry) {
          reader.Read(entry);
          return absl::OkStatus();
        });
        readers[i] = reader;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) REMORA_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  /// All ways show the same entries.
  absl::Status Check(const std::vector<Reader>& readers, Measured& measured) {
    std::uint64_t keys = 0;
    std::uint64_t hash = 0;
    measured.largest = 0;
    for (const Reader& reader : readers) {
      keys += reader.keys();
      hash += reader.hash();
      measured.largest = std::max(measured.largest, reader.keys());
    }
    if (hash_ == 0) hash_ = hash;
    if (keys == flags_.keys && hash == hash_) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("scan: ", measured.parts, " parts showed ", keys, " keys, or others than were written"));
  }

  const Flags& flags_;
  const std::string data_;
  const Clock& clock_;
  std::uint64_t hash_ = 0;  // of the first round
};

void Print(const Flags& flags, const std::vector<Measured>& all) {
  std::cout << absl::StrFormat("restart_scan: %d keys, values of %d bytes; medians of %d rounds in turns\n",
                               flags.keys, flags.value_size, flags.rounds);
  const double base = MedianOf(all[0].seconds);
  for (const Measured& measured : all) {
    const double median = MedianOf(measured.seconds);
    std::cout << (measured.parts == 0 ? absl::StrFormat("  %-10s", "ForEach")
                                      : absl::StrFormat("  Split(%d)  ", measured.parts))
              << absl::StrFormat(" %9.1f ms  %6.0f ns/key  speed-up %5.2f", median * 1e3,
                                 median * 1e9 / static_cast<double>(flags.keys), base / median);
    if (measured.parts != 0) {
      std::cout << absl::StrFormat(
          "  Split alone %.2f ms, largest range %.1f %%", measured.split_seconds * 1e3,
          100 * static_cast<double>(measured.largest) / static_cast<double>(flags.keys));
      const double load = MedianOf(measured.load_seconds);
      std::cout << absl::StrFormat(
          "\n  load by %-2d %9.1f ms  %6.0f ns/key  %.2f M keys/s  of the scan %5.2f", measured.parts,
          load * 1e3, load * 1e9 / static_cast<double>(flags.keys),
          static_cast<double>(flags.keys) / load / 1e6, load / median);
      const double open = MedianOf(measured.open_seconds);
      const double serve = MedianOf(measured.serve_seconds);
      std::cout << absl::StrFormat("\n  serves after %5.1f ms, the tier was open after %5.1f ms: %5.2f",
                                   serve * 1e3, open * 1e3, serve / open);
      std::cout << absl::StrFormat("\n  its memory %8.1f ms from the system, by one thread",
                                   MedianOf(measured.page_seconds) * 1e3);
    }
    std::cout << "\n";
  }
}

absl::Status Run(const Flags& flags) {
  const SteadyClock clock;
  const RunDirectory directory(flags.directory, "restart_scan");
  REMORA_RETURN_IF_ERROR(directory.status());
  REMORA_RETURN_IF_ERROR(FillTier(directory.data(), flags));
  std::vector<Measured> all(1);
  for (const std::size_t parts : flags.parts)
    all.push_back({.parts = parts,
                   .seconds = {},
                   .open_seconds = {},
                   .serve_seconds = {},
                   .load_seconds = {},
                   .page_seconds = {}});
  RestartScan scan(flags, directory.data(), clock);
  for (std::uint32_t round = 0; round < flags.rounds; ++round) {
    for (Measured& measured : all) REMORA_RETURN_IF_ERROR(scan.Round(measured));
  }
  Print(flags, all);
  return absl::OkStatus();
}

}  // namespace
}  // namespace remora::bench

int main(int argc, char** argv) {
  remora::bench::Flags flags;
  remora::command_line::CommandLine line(
      "restart_scan measures how long a restart reads its durable tier, and loads it into a store, by one "
      "thread and\nby several. It fills a tier of its own, and removes it.\n",
      "restart_scan");
  AddTierFlags(line, flags);
  line.Add("--parts", flags.parts, "Numbers of ranges, and of threads")
      .Separator(',')
      .Range(std::size_t{1}, std::size_t{1000})
      .ShowDefault();
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  return remora::bench::ExitStatusOf("restart_scan", remora::bench::Run(flags));
}
