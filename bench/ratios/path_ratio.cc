// Costs of the client's paths beside the bare requests that they are made of: how much of a GET or PUT is the
// network's, and how much is ours.
//
// The program measures operation by operation on one connection, in turns, so that whatever disturbs one
// disturbs the other. The noise between two runs is larger than most of the differences of interest.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kvbench/floor/raw_path.h"
#include "bench/kvbench/load/records.h"
#include "bench/ratios/ratio.h"
#include "bench/ratios/running_server.h"
#include "client/client.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"
#include "tools/command_line/command_line.h"
#include "tools/json/json.h"

namespace remora::bench {
namespace {

struct Flags : ServerFlags {
  std::string json;
  std::uint32_t rounds = 2000;
  std::uint32_t records = 2000;
  std::vector<std::size_t> value_sizes = {64, 1024, 4096};
};

enum Timed : std::size_t {
  kGet,
  kBucketRead,  // before the record READ: with it, what a GET consists of
  kRecordRead,
  kWarmGet,
  kWarmRecordRead,  // over its connection
  kMiss,
  kMissBucketRead,
  kPut,
  kWriteAndPing,
  kNothing,  // the clock itself
  kTimedCount
};

/// All durations of each kind, in nanoseconds.
class Times {
 public:
  void Add(Timed kind, Duration time) {
    all_[kind].push_back(static_cast<double>(std::chrono::nanoseconds(time).count()));
  }
  /// Without the clock's own share.
  double Median(Timed kind) const {
    return MedianOf(all_[kind]) - (kind == kNothing ? 0 : MedianOf(all_[kNothing]));
  }

 private:
  std::vector<double> all_[kTimedCount];
};

/// The rounds for one size of values.
class PathRatio {
 public:
  /// `client` remembers no places. A raw path is over each one's connection.
  PathRatio(const Flags& flags, std::size_t value_size, Client& client, RawPath& raw, Client& warm_client,
            RawPath& warm_raw, const Clock& clock)
      : flags_(flags),
        prefix_(absl::StrCat("path_ratio/", value_size, "/")),
        client_(client),
        raw_(raw),
        warm_client_(warm_client),
        warm_raw_(warm_raw),
        clock_(clock),
        values_(value_size) {}

  absl::Status Load() {
    for (std::uint32_t i = 0; i < flags_.records; ++i) {
      REMORA_RETURN_IF_ERROR(client_.Put(Key(i), values_.Make(i, i)));
    }
    REMORA_RETURN_IF_ERROR(SettleSends());
    for (std::uint32_t i = 0; i < flags_.records; ++i) {
      REMORA_ASSIGN_OR_RETURN(const Place place, raw_.Find(Key(i)));
      places_.push_back(place);
    }
    for (std::uint32_t i = 0; i < flags_.records; ++i) {
      REMORA_RETURN_IF_ERROR(warm_client_.Put(WarmKey(i), values_.Make(i, i)));
      REMORA_ASSIGN_OR_RETURN(const Place place, raw_.Find(WarmKey(i)));
      warm_places_.push_back(place);
    }
    // Twice: a client may not cache a location that it learned from a PUT before it first read the
    // generations.
    for (std::uint32_t i = 0; i < 2 * flags_.records; ++i) {
      REMORA_RETURN_IF_ERROR(warm_client_.Get(WarmKey(i % flags_.records), &value_));
    }
    return absl::OkStatus();
  }

  absl::Status Measure() {
    for (std::uint32_t round = 0; round < flags_.rounds; ++round) {
      // The order alternates: the contents of the caches after the first help the second.
      const bool raw_first = round % 2 == 0;
      REMORA_RETURN_IF_ERROR(raw_first ? RawGet() : ClientGet());
      REMORA_RETURN_IF_ERROR(raw_first ? ClientGet() : RawGet());
      REMORA_RETURN_IF_ERROR(raw_first ? RawWarmGet() : WarmGet());
      REMORA_RETURN_IF_ERROR(raw_first ? WarmGet() : RawWarmGet());
      REMORA_RETURN_IF_ERROR(raw_first ? RawMiss() : ClientMiss());
      REMORA_RETURN_IF_ERROR(raw_first ? ClientMiss() : RawMiss());
      REMORA_RETURN_IF_ERROR(raw_first ? RawPut() : ClientPut());
      REMORA_RETURN_IF_ERROR(raw_first ? ClientPut() : RawPut());
      REMORA_RETURN_IF_ERROR(SettleSends());
      REMORA_RETURN_IF_ERROR(Time(kNothing, [] { return absl::OkStatus(); }));
    }
    return absl::OkStatus();
  }

  const Times& times() const { return times_; }
  /// Size of a bare READ of a record, and of a GET's.
  std::uint32_t record_bytes() const { return places_[0].record_size; }
  double reads_per_warm_get() const {
    return static_cast<double>(reads_of_warm_gets_) / static_cast<double>(flags_.rounds);
  }
  double reads_per_get() const {
    return static_cast<double>(reads_of_gets_) / static_cast<double>(flags_.rounds);
  }

 private:
  std::string WarmKey(std::uint64_t i) const { return absl::StrCat(prefix_, "warm/", i); }
  std::string Key(std::uint64_t i) const { return absl::StrCat(prefix_, i); }
  std::uint32_t AnyRecord() { return static_cast<std::uint32_t>(random_.NextBelow(flags_.records)); }

  template <typename Operation>
  absl::Status Time(Timed kind, const Operation& operation) {
    const TimePoint begin = clock_.Now();
    absl::Status status = operation();
    times_.Add(kind, clock_.Now() - begin);
    return status;
  }

  absl::Status ClientGet() {
    const std::string key = Key(AnyRecord());
    const std::uint64_t reads_before = client_.counters().reads;
    REMORA_RETURN_IF_ERROR(Time(kGet, [&] { return client_.Get(key, &value_); }));
    reads_of_gets_ += client_.counters().reads - reads_before;
    return absl::OkStatus();
  }

  // Of keys that nobody overwrites, through a client that remembers places.
  absl::Status WarmGet() {
    const std::string key = WarmKey(AnyRecord());
    const std::uint64_t reads_before = warm_client_.counters().reads;
    REMORA_RETURN_IF_ERROR(Time(kWarmGet, [&] { return warm_client_.Get(key, &value_); }));
    reads_of_warm_gets_ += warm_client_.counters().reads - reads_before;
    return absl::OkStatus();
  }

  absl::Status RawWarmGet() {
    const Place& place = warm_places_[AnyRecord()];
    return Time(kWarmRecordRead, [&] { return warm_raw_.ReadRecord(place); });
  }

  absl::Status RawGet() {
    const Place& place = places_[AnyRecord()];
    REMORA_RETURN_IF_ERROR(Time(kBucketRead, [&] { return raw_.ReadBucket(place); }));
    return Time(kRecordRead, [&] { return raw_.ReadRecord(place); });
  }

  // Any bucket, as a missing key may be in: those that no key has used may not even have a page yet.
  std::string MissingKey() { return Key(flags_.records + random_.NextBelow(1'000'000'000)); }

  absl::Status ClientMiss() {
    const std::string key = MissingKey();
    const absl::Status status = Time(kMiss, [&] { return client_.Get(key, &value_); });
    if (status.code() == absl::StatusCode::kNotFound) return absl::OkStatus();
    return status.ok() ? absl::InternalError(absl::StrCat("miss: there is a key ", key)) : status;
  }

  absl::Status RawMiss() {
    const Place place = raw_.MainBucketOf(MissingKey());
    return Time(kMissBucketRead, [&] { return raw_.ReadBucket(place); });
  }

  absl::Status ClientPut() {
    const std::uint32_t record = AnyRecord();
    const std::string key = Key(record);
    const std::string_view value = values_.Make(record, random_.Next());
    return Time(kPut, [&] { return client_.Put(key, value); });
  }

  absl::Status RawPut() {
    const std::uint32_t record = AnyRecord();
    const std::string key = Key(record);
    const std::string_view value = values_.Make(record, random_.Next());
    return Time(kWriteAndPing, [&] {
      REMORA_RETURN_IF_ERROR(raw_.Write(key, value));
      return client_.Ping();
    });
  }

  // A SEND's completion may trail its reply, and would be taken by the raw READs instead of the client, which
  // waits for it. A READ's comes after it, so once the client has READ, none is left.
  absl::Status SettleSends() { return client_.Get(Key(0), &value_); }

  const Flags& flags_;
  const std::string prefix_;
  Client& client_;
  RawPath& raw_;
  Client& warm_client_;
  RawPath& warm_raw_;
  const Clock& clock_;
  ValueMaker values_;
  Random random_{1};
  std::vector<Place> places_;
  std::vector<Place> warm_places_;
  std::string value_;
  Times times_;
  std::uint64_t reads_of_gets_ = 0;
  std::uint64_t reads_of_warm_gets_ = 0;
};

// `goal`: upper bound of the ratio; 0: none.
void PrintRow(const char* name, double ours, const char* base_name, double base, double goal) {
  std::cout << absl::StrFormat("  %-16s %9.0f ns   %-26s %9.0f ns   ratio %6.3f", name, ours, base_name, base,
                               ours / base);
  if (goal > 0) std::cout << absl::StrFormat("   (goal <= %.2f)", goal);
  std::cout << "\n";
}

// The goals are for verbs, where a request's time is the network's; through mapped memory it is little more
// than the copy.
void Print(std::size_t value_size, bool with_goals, const PathRatio& measured) {
  const auto goal = [with_goals](double ratio) { return with_goals ? ratio : 0; };
  const Times& times = measured.times();
  const double bucket = times.Median(kBucketRead);
  const double record = times.Median(kRecordRead);
  const double get = times.Median(kGet);
  std::cout << absl::StrFormat("values of %d bytes; a cold GET took %.3f READs, a warm one %.3f\n",
                               value_size, measured.reads_per_get(), measured.reads_per_warm_get());
  PrintRow("GET, cold", get, "bucket READ + record READ", bucket + record, 0);
  PrintRow("GET, cold", get, "record READ alone", record, goal(2.05));
  PrintRow("GET, warm", times.Median(kWarmGet), "record READ alone", times.Median(kWarmRecordRead), 0);
  PrintRow("GET, missing key", times.Median(kMiss), "bucket READ", times.Median(kMissBucketRead), goal(1.08));
  PrintRow("PUT", times.Median(kPut), "WRITE + SEND + reply", times.Median(kWriteAndPing), goal(1.25));
}

/// In nanoseconds, but for the record's size. A new reference.
json_t* ToJson(std::size_t value_size, const PathRatio& measured) {
  const Times& times = measured.times();
  return json_pack("{s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",     //
                   "value_size", json::NewCount(value_size),                 //
                   "record_bytes", json::NewCount(measured.record_bytes()),  //
                   "record_read", times.Median(kRecordRead),                 //
                   "bucket_read", times.Median(kBucketRead),                 //
                   "get_warm", times.Median(kWarmGet),                       //
                   "record_read_of_warm", times.Median(kWarmRecordRead),     //
                   "get_cold", times.Median(kGet),                           //
                   "get_missing", times.Median(kMiss),                       //
                   "put", times.Median(kPut),                                //
                   "write_and_send", times.Median(kWriteAndPing));
}

absl::Status Run(const Flags& flags) {
  const SteadyClock clock;
  REMORA_ASSIGN_OR_RETURN(ClientOptions options, OptionsOf(flags));
  options.location_cache_bytes = 0;
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                          Client::Connect(flags.server, options, clock));
  options.location_cache_bytes = kDefaultLocationCacheBytes;
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> warm_client,
                          Client::Connect(flags.server, options, clock));
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<RawPath> raw, RawPath::Create(client->connection(), clock));
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<RawPath> warm_raw,
                          RawPath::Create(warm_client->connection(), clock));
  std::cout << absl::StrFormat("path_ratio: %s, %d rounds, %d records; medians, the clock's cost taken off\n",
                               flags.server, flags.rounds, flags.records);
  const bool with_goals = flags.server.starts_with("verbs:");
  const json::Value measurements(json_array());
  for (const std::size_t value_size : flags.value_sizes) {
    PathRatio path_ratio(flags, value_size, *client, *raw, *warm_client, *warm_raw, clock);
    REMORA_RETURN_IF_ERROR(path_ratio.Load());
    REMORA_RETURN_IF_ERROR(path_ratio.Measure());
    Print(value_size, with_goals, path_ratio);
    json_array_append_new(measurements.get(), ToJson(value_size, path_ratio));
  }
  if (flags.json.empty()) return absl::OkStatus();
  return json_dump_file(measurements.get(), flags.json.c_str(), JSON_INDENT(2)) == 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("--json: cannot write ", flags.json));
}

}  // namespace
}  // namespace remora::bench

int main(int argc, char** argv) {
  remora::bench::Flags flags;
  remora::command_line::CommandLine line(
      "path_ratio compares a client's GET and PUT with the bare requests that they are made of, on one\n"
      "connection to a running server. It writes records of its own (keys path_ratio/...), and leaves "
      "them.\n",
      "path_ratio");
  AddServerFlags(line, flags);
  line.Add("--rounds", flags.rounds, "Times that each is measured, for each size")
      .Range(1u, 100'000'000u)
      .ShowDefault();
  line.Add("--records", flags.records, "Records of each size").Range(1u, 100'000'000u).ShowDefault();
  line.Add("--value_size", flags.value_sizes, "Sizes of values, in bytes")
      .Separator(',')
      .Range(remora::bench::kMinBenchValueSize, remora::kMaxSmallValueSize)
      .ShowDefault();
  line.Add("--json", flags.json, "Writes the medians to this file, too, in nanoseconds");
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  return remora::bench::ExitStatusOf("path_ratio: " + flags.server, remora::bench::Run(flags));
}
