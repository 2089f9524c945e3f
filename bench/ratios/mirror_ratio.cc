// Costs of a client with a mirror of the index (client/mirror/index_mirror.h). Its GETs and MultiGets are of
// keys all over the store. They stand beside the bare READs that they are made of. A second client writes
// meanwhile, if it is asked to.
//
// The program measures operation by operation on one connection, in turns, as path_ratio does.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/kvbench/floor/raw_path.h"
#include "bench/kvbench/load/random.h"
#include "bench/kvbench/load/records.h"
#include "bench/ratios/ratio.h"
#include "bench/ratios/running_server.h"
#include "client/client.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"
#include "tools/command_line/command_line.h"

namespace remora::bench {
namespace {

constexpr std::size_t kMany = 16;

struct Flags : ServerFlags {
  std::uint32_t records = 1'000'000;
  std::uint32_t rounds = 20'000;
  std::uint32_t places = 20'000;
  std::uint32_t updates_per_second = 0;
  std::size_t value_size = 64;
  std::size_t mirror = std::size_t{64} << 20;
};

enum Timed : std::size_t { kGet, kRead, kMultiGet, kReads, kNothing, kTimedCount };

/// Work of the clients during the measurement.
struct Done {
  std::uint64_t updates = 0;
  std::uint64_t gets = 0;
  ClientCounters reader;
};

class MirrorRatio {
 public:
  MirrorRatio(const Flags& flags, const ClientOptions& options, const Clock& clock)
      : flags_(flags), options_(options), clock_(clock), values_(flags.value_size) {}

  absl::Status Load() {
    ClientOptions plain = options_;
    plain.location_cache_bytes = 0;
    REMORA_ASSIGN_OR_RETURN(writer_, Client::Connect(flags_.server, plain, clock_));
    return PutRecords(*writer_, values_, flags_.records);
  }

  absl::Status Build() {
    ClientOptions mirrored = options_;
    mirrored.index_mirror_bytes = flags_.mirror;
    const TimePoint begin = clock_.Now();
    REMORA_ASSIGN_OR_RETURN(client_, Client::Connect(flags_.server, mirrored, clock_));
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(clock_.Now() - begin);
    const ClientCounters& built = client_->counters();
    std::cout << absl::StrFormat("built by %d READs of %d bytes, in %.1f ms with the connection\n",
                                 built.mirror_reads, built.mirror_read_bytes,
                                 static_cast<double>(took.count()) / 1000);
    REMORA_ASSIGN_OR_RETURN(raw_, RawPath::Create(client_->connection(), clock_));
    for (std::uint32_t i = 0; i < flags_.places; ++i) {
      REMORA_ASSIGN_OR_RETURN(const Place place, raw_->Find(KeyText(AnyRecord()).view()));
      places_.push_back(place);
    }
    return absl::OkStatus();
  }

  absl::Status Measure() {
    const ClientCounters before = client_->counters();
    begin_ = clock_.Now();
    for (std::uint32_t round = 0; round < flags_.rounds; ++round) {
      REMORA_RETURN_IF_ERROR(Update());
      const bool raw_first = round % 2 == 0;
      REMORA_RETURN_IF_ERROR(raw_first ? RawRead() : Get());
      REMORA_RETURN_IF_ERROR(raw_first ? Get() : RawRead());
      if (round % kMany == 0) {
        REMORA_RETURN_IF_ERROR(raw_first ? RawReads() : MultiGet());
        REMORA_RETURN_IF_ERROR(raw_first ? MultiGet() : RawReads());
      }
      REMORA_RETURN_IF_ERROR(Time(kNothing, [] { return absl::OkStatus(); }));
    }
    done_.reader = client_->counters() - before;
    return absl::OkStatus();
  }

  void Print() const {
    Row("GET, mirrored", kGet, "record READ", kRead);
    Row("MultiGet of 16", kMultiGet, "16 record READs in flight", kReads);
    const auto gets = static_cast<double>(done_.gets);
    const auto reads = static_cast<double>(done_.reader.reads);
    std::cout << absl::StrFormat(
        "%d keys got, %.4f READs each (%.4f without upkeep); %.2f %% by the mirror, %d false hits\n",
        done_.gets, reads / gets,
        (reads - static_cast<double>(done_.reader.mirror_reads + done_.reader.generation_reads)) / gets,
        100 * static_cast<double>(done_.reader.mirror_hits) / gets, done_.reader.mirror_false_hits);
    const double seconds = std::chrono::duration<double>(clock_.Now() - begin_).count();
    const double bytes = gets * static_cast<double>(places_[0].record_size);
    std::cout << absl::StrFormat(
        "%d updates in %.1f s; upkeep: %d READs, %d bytes, %.2f %% of the records' bytes; %d looks\n",
        done_.updates, seconds, done_.reader.mirror_reads, done_.reader.mirror_read_bytes,
        100 * static_cast<double>(done_.reader.mirror_read_bytes) / bytes, done_.reader.generation_reads);
  }

 private:
  std::uint64_t AnyRecord() { return random_.NextBelow(flags_.records); }

  template <typename Operation>
  absl::Status Time(Timed kind, const Operation& operation) {
    const TimePoint begin = clock_.Now();
    absl::Status status = operation();
    times_[kind].push_back(static_cast<double>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock_.Now() - begin).count()));
    return status;
  }
  double Median(Timed kind) const {
    return MedianOf(times_[kind]) - (kind == kNothing ? 0 : Median(kNothing));
  }
  void Row(const char* name, Timed ours, const char* base_name, Timed base) const {
    std::cout << absl::StrFormat("  %-16s %9.0f ns   %-26s %9.0f ns   ratio %6.3f\n", name, Median(ours),
                                 base_name, Median(base), Median(ours) / Median(base));
  }

  /// Does the updates that are due.
  absl::Status Update() {
    const double seconds = std::chrono::duration<double>(clock_.Now() - begin_).count();
    const auto due = static_cast<std::uint64_t>(seconds * flags_.updates_per_second);
    for (; done_.updates < due; ++done_.updates) {
      const std::uint64_t record = AnyRecord();
      REMORA_RETURN_IF_ERROR(writer_->Put(KeyText(record).view(), values_.Make(record, done_.updates)));
    }
    return absl::OkStatus();
  }

  absl::Status Get() {
    const KeyText key(AnyRecord());
    ++done_.gets;
    return Time(kGet, [&] { return client_->Get(key.view(), &value_); });
  }
  absl::Status RawRead() {
    const Place& place = places_[random_.NextBelow(places_.size())];
    return Time(kRead, [&] { return raw_->ReadRecord(place); });
  }
  absl::Status MultiGet() {
    std::vector<KeyText> keys;
    std::array<std::string_view, kMany> views;
    for (std::size_t i = 0; i < kMany; ++i) keys.emplace_back(AnyRecord());
    for (std::size_t i = 0; i < kMany; ++i) views[i] = keys[i].view();
    done_.gets += kMany;
    return Time(kMultiGet, [&] { return client_->MultiGet(views, many_); });
  }
  absl::Status RawReads() {
    std::array<Place, kMany> places;
    for (Place& place : places) place = places_[random_.NextBelow(places_.size())];
    return Time(kReads, [&] { return raw_->ReadRecords(places); });
  }

  const Flags& flags_;
  const ClientOptions& options_;
  const Clock& clock_;
  ValueMaker values_;
  Random random_{1};
  std::unique_ptr<Client> writer_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<RawPath> raw_;
  std::vector<Place> places_;  // of some records when the measurement begins
  std::string value_;
  std::array<GetResult, kMany> many_;
  std::array<std::vector<double>, kTimedCount> times_;
  TimePoint begin_;
  Done done_;
};

absl::Status Run(const Flags& flags) {
  const SteadyClock clock;
  REMORA_ASSIGN_OR_RETURN(const ClientOptions options, OptionsOf(flags));
  MirrorRatio ratio(flags, options, clock);
  REMORA_RETURN_IF_ERROR(ratio.Load());
  std::cout << absl::StrFormat(
      "mirror_ratio: %s, %d records of %d bytes; medians, the clock's cost taken off\n", flags.server,
      flags.records, flags.value_size);
  REMORA_RETURN_IF_ERROR(ratio.Build());
  REMORA_RETURN_IF_ERROR(ratio.Measure());
  ratio.Print();
  return absl::OkStatus();
}

}  // namespace
}  // namespace remora::bench

int main(int argc, char** argv) {
  remora::bench::Flags flags;
  remora::command_line::CommandLine line(
      "mirror_ratio compares the GETs of a client that mirrors the index with bare READs, on one\n"
      "connection to a running server. It overwrites kvbench's records, and leaves them.\n",
      "mirror_ratio");
  AddServerFlags(line, flags);
  line.Add("--records", flags.records, "Records; rounded up to a multiple of 16")
      .Range(1u, 1'000'000'000u)
      .ShowDefault();
  line.Add("--rounds", flags.rounds, "GETs that are measured, and a MultiGet for every 16 of them")
      .Range(1u, 1'000'000'000u)
      .ShowDefault();
  line.Add("--places", flags.places, "Records of the bare READs").Range(1u, 100'000'000u).ShowDefault();
  line.Add("--updates_per_second", flags.updates_per_second, "Puts of any records, by another client")
      .Range(0u, 10'000'000u)
      .ShowDefault();
  line.Add("--value_size", flags.value_size, "Size of values, in bytes")
      .Range(remora::bench::kMinBenchValueSize, std::size_t{4096})
      .ShowDefault();
  line.Add("--index_mirror", flags.mirror, "Memory for the mirror").Size();
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  return remora::bench::ExitStatusOf("mirror_ratio: " + flags.server, remora::bench::Run(flags));
}
