#include "bench/kvbench/floor/floor.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kvbench/floor/floor_disk.h"
#include "bench/kvbench/floor/raw_path.h"
#include "bench/kvbench/load/random.h"
#include "bench/kvbench/load/records.h"
#include "bench/kvbench/report/report.h"
#include "client/async_client.h"
#include "client/client.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"
#include "tools/command_line/say.h"

namespace remora::bench {
namespace {

constexpr std::size_t kTurns = 50;
constexpr std::size_t kMany = 16;
constexpr std::uint64_t kOwnKeys = 1000;
// Records that are asked for: enough of them that no cache holds them.
constexpr std::uint64_t kMaxAskedFor = 1 << 18;

/// The compiler cannot do without what was computed.
void Keep(std::uint64_t value) { asm volatile("" : : "r"(value) : "memory"); }

/// One thing that is measured: a turn does `count` of it, of what Draw has drawn.
struct Way {
  std::string name;
  std::function<absl::Status(std::size_t count)> turn;
  std::size_t each = 1;  // divides the operations of a turn: larger for slow ways
  std::vector<double> nanoseconds{};

  double Median() const {
    std::vector<double> sorted = nanoseconds;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }
};

/// Memory of GETs, without all that finds out its contents: buckets that name records, and the records.
class Memory {
 public:
  Memory(std::uint64_t records, std::size_t key_size, std::size_t value_size)
      : record_size_(ExtentUnits(RecordExtentCode(key_size, value_size)) * kUnitSize),
        copied_(value_size),
        records_(records * record_size_, 'r'),
        // About as many as the store's index has.
        buckets_(std::max<std::uint64_t>(1, records / 12) * kWords) {
    Random random(3);
    for (std::uint64_t& word : buckets_) word = random.NextBelow(records);
  }

  std::uint64_t AnyBucket(Random& random) const { return random.NextBelow(buckets_.size() / kWords); }
  /// Which record a bucket names: one of its words.
  std::uint64_t RecordOf(std::uint64_t bucket) const { return buckets_[bucket * kWords + bucket % kWords]; }
  void Copy(std::uint64_t record, std::string* value) const {
    value->assign(records_.data() + record * record_size_, copied_);
  }

 private:
  static constexpr std::size_t kWords = sizeof(Bucket) / sizeof(std::uint64_t);

  const std::size_t record_size_;
  const std::size_t copied_;
  const std::string records_;
  std::vector<std::uint64_t> buckets_;
};

/// Measures what reads cost beside the bare copies or READs that they consist of.
///
/// The class has more than 15 fields, because each way to read is measured in turn with the others, over the
/// same keys and buffers.
class Floor {
 public:
  Floor(const BenchOptions& options, const Clock& clock, const std::atomic<bool>& stop)
      : options_(options),
        clock_(clock),
        stop_(stop),
        records_(options.workload.records),
        value_size_(options.workload.fields.length),
        values_(value_size_),
        memory_(records_, kKeySize, value_size_),
        per_turn_(std::max<std::size_t>(kMany, options.workload.operations / kTurns / kMany * kMany)) {}

  absl::Status Prepare();
  absl::Status Measure();
  std::string Describe() const;

 private:
  using Count = std::size_t;

  // The floors come first: the others are multiples of them.
  void AddFloors();
  void AddGets();
  void AddParts();
  void AddPuts();
  void Draw(Count count);
  absl::Status Gets(Client& client, Count count);
  absl::Status MultiGets(Count count);
  absl::Status AsyncGets(Count count);

  const Way& Of(std::string_view name) const {
    const auto found =
        std::find_if(ways_.begin(), ways_.end(), [&](const Way& way) { return way.name == name; });
    REMORA_CHECK(found != ways_.end());
    return *found;
  }
  void Row(std::string* text, std::string_view name, std::initializer_list<std::string_view> floors) const;

  /// OK, as long as nobody wants it to end.
  absl::Status GoesOn() const {
    return stop_.load(std::memory_order_relaxed) ? absl::CancelledError("it was ended") : absl::OkStatus();
  }

  const BenchOptions& options_;
  const Clock& clock_;
  const std::atomic<bool>& stop_;
  const std::uint64_t records_;
  const std::size_t value_size_;
  ValueMaker values_;
  Memory memory_;
  const std::size_t per_turn_;
  Random random_{1};

  std::unique_ptr<Client> client_;  // remembers no places
  std::unique_ptr<Client> warm_;
  std::unique_ptr<AsyncClient> async_;
  std::unique_ptr<RawPath> raw_;
  std::unique_ptr<DiskFloor> disk_;                    // null: no data directory
  absl::flat_hash_map<std::string, std::string> map_;  // all records, in this process

  std::vector<std::uint64_t> asked_for_;  // records
  std::vector<Place> places_;             // of those
  // Drawn for a turn, in the order in which they are used.
  std::vector<KeyText> keys_, missing_, own_;
  std::vector<Place> drawn_places_;
  std::vector<std::uint64_t> buckets_, bare_records_;

  std::vector<Way> ways_;
  std::size_t turns_ = 0;  // that are complete
  std::string value_;
  std::string one_value_;
  std::vector<GetResult> results_{kMany};
};

absl::Status Floor::Prepare() {
  const std::string& address = options_.target.address;
  ClientOptions cold = options_.target.client;
  cold.location_cache_bytes = 0;
  ClientOptions warm = options_.target.client;
  warm.location_cache_bytes = kDefaultLocationCacheBytes;
  REMORA_ASSIGN_OR_RETURN(client_, Client::Connect(address, cold, clock_));
  REMORA_ASSIGN_OR_RETURN(warm_, Client::Connect(address, warm, clock_));
  REMORA_ASSIGN_OR_RETURN(async_, AsyncClient::Connect(address, cold, AsyncOptions{.depth = kMany}, clock_));
  REMORA_ASSIGN_OR_RETURN(raw_, RawPath::Create(client_->connection(), clock_));
  if (!options_.target.store.data_dir.empty()) {
    REMORA_ASSIGN_OR_RETURN(disk_, DiskFloor::Open(options_.target.store.data_dir));
  }
  one_value_ = std::string(values_.Make(0, 1));
  for (std::uint64_t i = 0; i < records_; ++i) {
    REMORA_RETURN_IF_ERROR(GoesOn());
    map_.emplace(std::string(KeyText(i).view()), one_value_);
  }
  for (std::uint64_t i = 0; i < kOwnKeys; ++i) {
    REMORA_RETURN_IF_ERROR(GoesOn());
    REMORA_RETURN_IF_ERROR(client_->Put(KeyText(records_ + i).view(), one_value_));
  }
  const std::uint64_t count = std::min(records_, kMaxAskedFor);
  for (std::uint64_t i = 0; i < count; ++i) {
    REMORA_RETURN_IF_ERROR(GoesOn());
    asked_for_.push_back(count == records_ ? i : random_.NextBelow(records_));
    // A SEND's completion may trail its reply; a READ of the client's own takes it.
    REMORA_RETURN_IF_ERROR(client_->Get(KeyText(asked_for_.back()).view(), &value_));
    REMORA_ASSIGN_OR_RETURN(const Place place, raw_->Find(KeyText(asked_for_.back()).view()));
    places_.push_back(place);
  }
  // Twice: a client may not cache a location that it learned before it first read the generations.
  for (int i = 0; i < 2; ++i) {
    for (const std::uint64_t record : asked_for_) {
      REMORA_RETURN_IF_ERROR(GoesOn());
      REMORA_RETURN_IF_ERROR(warm_->Get(KeyText(record).view(), &value_));
    }
  }
  AddFloors();
  AddGets();
  AddParts();
  AddPuts();
  return absl::OkStatus();
}

void Floor::AddFloors() {
  ways_.push_back({"random read of memory", [this](Count count) {
                     std::uint64_t sum = 0;
                     // Each place depends on what was read before, as the second of a GET's does.
                     for (Count i = 0; i < count; ++i) {
                       sum += memory_.RecordOf((buckets_[i] + (sum & 1)) %
                                               std::max<std::uint64_t>(1, records_ / 12));
                     }
                     Keep(sum);
                     return absl::OkStatus();
                   }});
  ways_.push_back({"copy of a random value", [this](Count count) {
                     for (Count i = 0; i < count; ++i) memory_.Copy(bare_records_[i], &value_);
                     return absl::OkStatus();
                   }});
  ways_.push_back({"bucket, then copy of its value", [this](Count count) {
                     for (Count i = 0; i < count; ++i) memory_.Copy(memory_.RecordOf(buckets_[i]), &value_);
                     return absl::OkStatus();
                   }});
  ways_.push_back({"flat_hash_map, and copy", [this](Count count) {
                     for (Count i = 0; i < count; ++i) value_ = map_.find(AbslView(keys_[i].view()))->second;
                     return absl::OkStatus();
                   }});
  ways_.push_back({"READ of a bucket", [this](Count count) {
                     for (Count i = 0; i < count; ++i)
                       REMORA_RETURN_IF_ERROR(raw_->ReadBucket(drawn_places_[i]));
                     return absl::OkStatus();
                   }});
  ways_.push_back({"READ of a record", [this](Count count) {
                     for (Count i = 0; i < count; ++i)
                       REMORA_RETURN_IF_ERROR(raw_->ReadRecord(drawn_places_[i]));
                     return absl::OkStatus();
                   }});
  ways_.push_back({"READ of a bucket, then of a record", [this](Count count) {
                     for (Count i = 0; i < count; ++i) {
                       REMORA_RETURN_IF_ERROR(raw_->ReadBucket(drawn_places_[i]));
                       REMORA_RETURN_IF_ERROR(raw_->ReadRecord(drawn_places_[i]));
                     }
                     return absl::OkStatus();
                   }});
}

void Floor::AddGets() {
  ways_.push_back({"GET, cold", [this](Count count) { return Gets(*client_, count); }});
  ways_.push_back({"GET, warm", [this](Count count) { return Gets(*warm_, count); }});
  ways_.push_back({"MultiGet of 16, for each", [this](Count count) { return MultiGets(count); }});
  ways_.push_back({"GET, 16 in flight, for each", [this](Count count) { return AsyncGets(count); }});
  ways_.push_back({"GET of a missing key", [this](Count count) {
                     for (Count i = 0; i < count; ++i) {
                       const absl::Status status = client_->Get(missing_[i].view(), &value_);
                       if (!absl::IsNotFound(status))
                         return status.ok() ? absl::InternalError("miss: the key exists") : status;
                     }
                     return absl::OkStatus();
                   }});
}

// Adds the computations of a cold GET, on data in the nearest cache.
void Floor::AddParts() {
  ways_.push_back({"hash of the key", [this](Count count) {
                     std::uint64_t sum = 0;
                     for (Count i = 0; i < count; ++i) sum += HashKey(keys_[i % kMany].view());
                     Keep(sum);
                     return absl::OkStatus();
                   }});
  ways_.push_back({"checksum of the value", [this](Count count) {
                     std::uint64_t sum = 0;
                     for (Count i = 0; i < count; ++i) sum += HashValue(one_value_.data(), one_value_.size());
                     Keep(sum);
                     return absl::OkStatus();
                   }});
}

void Floor::AddPuts() {
  constexpr std::size_t kPutEach = 10;
  ways_.push_back({"WRITE, SEND and reply",
                   [this](Count count) {
                     for (Count i = 0; i < count; ++i) {
                       REMORA_RETURN_IF_ERROR(raw_->Write(own_[i].view(), one_value_));
                       REMORA_RETURN_IF_ERROR(client_->Ping());
                     }
                     // As in Prepare.
                     return client_->Get(keys_[0].view(), &value_);
                   },
                   kPutEach});
  ways_.push_back({"PUT",
                   [this](Count count) {
                     for (Count i = 0; i < count; ++i) {
                       REMORA_RETURN_IF_ERROR(client_->Put(own_[i].view(), one_value_));
                     }
                     return client_->Get(keys_[0].view(), &value_);
                   },
                   kPutEach});
  if (disk_ == nullptr) return;
  ways_.push_back({"RocksDB, WriteBatch of one",
                   [this](Count count) {
                     for (Count i = 0; i < count; ++i) {
                       REMORA_RETURN_IF_ERROR(disk_->Write(own_[i].view(), one_value_));
                     }
                     return absl::OkStatus();
                   },
                   kPutEach});
  ways_.push_back({"append to a file, and fdatasync",
                   [this](Count count) {
                     for (Count i = 0; i < count; ++i)
                       REMORA_RETURN_IF_ERROR(disk_->AppendAndSync(one_value_));
                     return absl::OkStatus();
                   },
                   5000});
}

absl::Status Floor::Gets(Client& client, Count count) {
  for (Count i = 0; i < count; ++i) REMORA_RETURN_IF_ERROR(client.Get(keys_[i].view(), &value_));
  return absl::OkStatus();
}

absl::Status Floor::MultiGets(Count count) {
  std::string_view keys[kMany];
  for (Count first = 0; first < count; first += kMany) {
    for (std::size_t i = 0; i < kMany; ++i) keys[i] = keys_[first + i].view();
    REMORA_RETURN_IF_ERROR(client_->MultiGet(keys, results_));
    for (const GetResult& result : results_) REMORA_RETURN_IF_ERROR(result.status);
  }
  return absl::OkStatus();
}

absl::Status Floor::AsyncGets(Count count) {
  absl::Status failed;
  for (Count next = 0; next < count || async_->in_flight() > 0;) {
    while (next < count && async_->free_slots() > 0) {
      REMORA_RETURN_IF_ERROR(async_
                                 ->Get(keys_[next++].view(),
                                       [this, &failed](const AsyncResult& got) {
                                         if (!got.status.ok()) failed = got.status;
                                         value_.assign(got.value);
                                       })
                                 .status());
    }
    REMORA_RETURN_IF_ERROR(async_->Wait(TimePoint::max()).status());
  }
  return failed;
}

void Floor::Draw(Count count) {
  keys_.clear();
  missing_.clear();
  own_.clear();
  drawn_places_.clear();
  buckets_.clear();
  bare_records_.clear();
  for (Count i = 0; i < count; ++i) {
    const std::uint64_t one = random_.NextBelow(asked_for_.size());
    keys_.emplace_back(asked_for_[one]);
    drawn_places_.push_back(places_[one]);
    missing_.emplace_back(kMaxRecords + random_.NextBelow(kMaxRecords));
    own_.emplace_back(records_ + random_.NextBelow(kOwnKeys));
    buckets_.push_back(memory_.AnyBucket(random_));
    bare_records_.push_back(random_.NextBelow(records_));
  }
}

absl::Status Floor::Measure() {
  for (; turns_ < kTurns; ++turns_) {
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      if (!GoesOn().ok()) return turns_ > 0 ? absl::OkStatus() : GoesOn();
      // Another one comes first in each turn, and each asks for others: none finds what one before has left
      // in the caches.
      Way& way = ways_[(i + turns_) % ways_.size()];
      const Count count = std::max<Count>(1, per_turn_ / way.each);
      Draw(std::max(count, kMany));
      const TimePoint begin = clock_.Now();
      REMORA_RETURN_IF_ERROR(way.turn(count));
      const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(clock_.Now() - begin);
      way.nanoseconds.push_back(static_cast<double>(took.count()) / static_cast<double>(count));
    }
  }
  return absl::OkStatus();
}

void Floor::Row(std::string* text, std::string_view name,
                std::initializer_list<std::string_view> floors) const {
  const double ns = Of(name).Median();
  absl::StrAppendFormat(text, "%-36s %10s\n", std::string(name), TimeText(ns));
  for (const std::string_view floor : floors) {
    absl::StrAppendFormat(text, "    %6.2f times  %s\n", ns / Of(floor).Median(), std::string(floor));
  }
}

std::string Floor::Describe() const {
  std::string text =
      absl::StrFormat("floor: %s, %s records of %d + %d bytes; medians of %d turns of %s operations%s\n",
                      command_line::Printable(options_.target.address), Grouped(records_), kKeySize,
                      value_size_, turns_, Grouped(per_turn_), turns_ < kTurns ? ", cut short" : "");
  absl::StrAppend(&text, "\nfloors\n");
  for (const Way& way : ways_) {
    const bool is_ours = way.name.find("GET") != std::string::npos ||
                         way.name.find("Get") != std::string::npos || way.name == "PUT";
    if (!is_ours) absl::StrAppendFormat(&text, "%-36s %10s\n", way.name, TimeText(way.Median()));
  }
  absl::StrAppend(&text, "\npaths, and what they are times a floor\n");
  Row(&text, "GET, cold",
      {"bucket, then copy of its value", "flat_hash_map, and copy", "READ of a bucket, then of a record",
       "READ of a record"});
  Row(&text, "GET, warm", {"READ of a record"});
  Row(&text, "MultiGet of 16, for each", {"flat_hash_map, and copy", "copy of a random value"});
  Row(&text, "GET, 16 in flight, for each", {"flat_hash_map, and copy"});
  Row(&text, "GET of a missing key", {"READ of a bucket", "random read of memory"});
  Row(&text, "PUT", {"WRITE, SEND and reply"});
  if (disk_ != nullptr) Row(&text, "PUT", {"RocksDB, WriteBatch of one", "append to a file, and fdatasync"});

  const double get = Of("GET, cold").Median();
  double rest = get;
  absl::StrAppend(&text, "\nwhere a cold GET's time goes\n");
  const auto part = [&](const char* name, double ns) {
    rest -= ns;
    absl::StrAppendFormat(&text, "%-36s %10s  %5.1f %%\n", name, TimeText(std::max(0.0, ns)), 100 * ns / get);
  };
  const double both = Of("READ of a bucket, then of a record").Median();
  const double memory = Of("bucket, then copy of its value").Median();
  part("memory", memory);
  part("the transport's READs, beyond that", both - memory);
  part("hash of the key", Of("hash of the key").Median());
  part("checksum of the value", Of("checksum of the value").Median());
  absl::StrAppendFormat(&text, "%-36s %10s  %5.1f %%\n", "search, checks and copy: what is left",
                        TimeText(std::max(0.0, rest)), 100 * rest / get);
  return text;
}

}  // namespace

absl::StatusOr<std::string> MeasureFloor(const BenchOptions& options, const Clock& clock,
                                         const std::atomic<bool>& stop) {
  Floor floor(options, clock, stop);
  REMORA_RETURN_IF_ERROR(floor.Prepare());
  REMORA_RETURN_IF_ERROR(floor.Measure());
  return floor.Describe();
}

}  // namespace remora::bench
