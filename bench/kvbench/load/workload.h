// A workload, as YCSB's CoreWorkload describes one, and its operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/kvbench/load/distribution.h"
#include "bench/kvbench/load/random.h"
#include "bench/kvbench/load/records.h"

namespace remora::bench {

enum class OperationKind : std::uint8_t {
  kInsert = 0,
  kRead = 1,
  kUpdate = 2,
  kReadModifyWrite = 3,
  kScan = 4
};
inline constexpr std::size_t kOperationKinds = 5;
inline constexpr const char* kOperationNames[kOperationKinds] = {"insert", "read", "update", "rmw", "scan"};

/// How many of the operations are of which kind: parts of 1.
struct Mix {
  double read = 0.95;
  double update = 0.05;
  double insert = 0;
  double scan = 0;
  double read_modify_write = 0;
};

/// How many records a scan asks for: from `least` to `most`, each as likely, or the fewer the likelier.
struct ScanLengths {
  std::uint64_t least = 1;    // minscanlength
  std::uint64_t most = 1000;  // maxscanlength
  bool zipfian = false;       // scanlengthdistribution
};

/// bench/kvbench/load/properties.h reads it from YCSB's properties, whose names stand here where they differ.
struct Workload {
  std::string name = "core";
  Mix mix;
  RequestDistribution distribution;  // requestdistribution, hotspot..., exponential...
  ScanLengths scan_lengths;

  std::uint64_t records = 100'000;  // recordcount
  /// A load inserts so many records, from the first on; a run reads and updates those. 0: up to `records`. A
  /// run inserts records behind `records`.
  std::uint64_t first_record = 0;  // insertstart
  std::uint64_t insert_count = 0;  // insertcount
  KeyOptions keys;                 // keyprefix, insertorder, zeropadding
  Fields fields;                   // fieldcount, minfieldlength, fieldlength, fieldlengthdistribution
  /// True if an update writes all fields, and not one. An update of one of several reads the value first.
  bool write_all_fields = false;

  /// The run ends with whichever comes first; 0: no such end.
  std::uint64_t operations = 1'000'000;  // operationcount
  double max_seconds = 0;                // maxexecutiontime
  /// Operations per second of all threads together; 0: a closed loop.
  double rate = 0;            // target
  std::uint32_t threads = 1;  // threadcount, of each process
  bool verify = false;        // dataintegrity: checks each value that is read, and the order of scans

  // Settings for which YCSB has no properties.
  std::uint64_t seed = 1;
  /// Operations that each thread has in flight at once.
  std::uint32_t depth = 1;
  /// At depth 1, times one operation in so many. Reading the clock costs some 20 ns, twice for each operation
  /// timed then.
  std::uint32_t time_every = 1;
  double warm_up_seconds = 0;   // before the run, not counted
  double interval_seconds = 0;  // of the time series; 0: none

  std::uint64_t inserted() const { return insert_count != 0 ? insert_count : records - first_record; }
};

/// InvalidArgument if settings contradict each other, or ask for what the store does not have. `runs`: false
/// if the records are only loaded, and nothing is scanned.
absl::Status Validate(const Workload& workload, bool runs = true);

// --- Steps --------------------------------------------------------------------------------------------

/// One operation of a run, and what was drawn for it (RecordChooser::Next).
struct Step {
  OperationKind kind = OperationKind::kRead;
  std::uint64_t drawn = 0;
};

/// The operations of one thread, drawn before the clock starts. Drawing one costs some tens of nanoseconds
/// (two calls of pow), which would show beside an operation that takes a hundred. A run that is longer than
/// the drawn operations begins again with the first.
class Steps {
 public:
  /// Most that are drawn: 16 MiB for a thread, 256 MiB for all, but at least 128 KiB for each.
  static constexpr std::size_t kMaxDrawn = std::size_t{1} << 21;
  static constexpr std::size_t kMaxDrawnByAll = std::size_t{1} << 25;
  static constexpr std::size_t kLeastDrawn = std::size_t{1} << 14;

  /// REQUIRES: count >= 1; a valid workload. Sequential: this thread, one of `workers`, takes
  /// every `workers`th record, from number `worker` on.
  Steps(const Workload& workload, std::uint64_t count, Random random, std::uint32_t worker = 0,
        std::uint32_t workers = 1);

  Step Next() {
    const std::uint64_t drawn = drawn_[next_];
    if (++next_ == drawn_.size()) next_ = 0;
    const auto kind = static_cast<OperationKind>(drawn & kKindMask);
    if (!sequential_ || kind == OperationKind::kInsert) return {kind, drawn >> kKindBits};
    const std::uint64_t record = sequence_ % records_;
    sequence_ += stride_;
    return {kind, record};
  }

 private:
  static constexpr int kKindBits = 3;
  static constexpr std::uint64_t kKindMask = (1 << kKindBits) - 1;
  static_assert(kOperationKinds <= 1 << kKindBits);

  std::vector<std::uint64_t> drawn_;  // drawn << kKindBits | kind
  std::size_t next_ = 0;
  const bool sequential_;
  const std::uint64_t records_;
  const std::uint64_t stride_;
  std::uint64_t sequence_;
};

}  // namespace remora::bench
