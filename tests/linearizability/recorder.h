// Common parts of clients that use a store in every way, at random: the choice of the next operation, and the
// notes of requests and answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"
#include "tests/linearizability/operation.h"

namespace remora::linear {

struct WorkloadOptions {
  std::uint64_t seed = 1;
  std::uint32_t keys = 8;      // of values that say whose they are
  std::uint32_t counters = 1;  // that are incremented
  std::uint32_t lists = 1;     // that are appended to
  std::size_t max_value = 2000;
  std::uint32_t large_permille = 0;  // of puts, with values that do not pass through a staging buffer
  std::uint32_t read_percent = 50;
  bool ttls = true;
  bool scans = false;         // where the store keeps an order
  bool one_sided = false;     // scans are one-sided, and more of them
  std::size_t key_size = 0;   // of most registers, at least: the longer, the fewer keys has a leaf
  bool durabilities = false;  // each write names one
};

/// State that clients of one store share. Any thread.
struct WorkloadShared {
  std::atomic<std::uint64_t> values = 0;   // each value has a number of its own
  std::atomic<std::uint64_t> batches = 0;  // each batch, too
  /// Reads the server's counter of the sequence up to which watches show. For clients that watch.
  std::function<std::uint64_t()> changes_end{};
};

class Recorder {
 public:
  /// `now`: the history's time, which goes on.
  Recorder(const WorkloadOptions& options, std::uint32_t client, WorkloadShared& shared,
           std::function<Time()> now);

  History& history() { return history_; }
  /// Answers that no store may give, whatever the order.
  const std::vector<std::string>& complaints() const { return complaints_; }
  std::uint64_t done() const { return done_; }
  /// Names another client for the rest: one that forgets its operations in flight is no longer the same.
  void set_client(std::uint32_t client) { client_ = client; }

 protected:
  enum class Choice : std::uint8_t {
    kGet = 1,
    kMultiGet,
    kExists,
    kScan,
    kPut,
    kMultiPut,
    kDelete,
    kTouch,
    kIncrement,
    kAppend,
    kBatch
  };
  Choice Choose();

  /// A write, and where it was noted that it has begun.
  struct Planned {
    std::size_t place = 0;
    std::string key{};
    std::string value{};   // of an append, what to put behind
    PutOptions options{};  // of a touch, the time to live is kNeverExpires where it is to persist
    std::int64_t delta = 0;

    WriteOptions write_options() const {
      return {.condition = options.condition, .durability = options.durability};
    }
  };
  Planned PlanPut();
  Planned PlanDelete();
  Planned PlanTouch();
  Planned PlanIncrement();
  Planned PlanAppend();
  struct PlannedBatch {
    std::size_t first = 0;  // its writes are noted one behind the other
    std::size_t count = 0;
    WriteBatch batch{};
  };
  PlannedBatch PlanBatch();
  void EndBatch(const PlannedBatch& batch, const absl::Status& status, std::uint64_t version);

  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }
  std::string AnyKey();
  std::string KeyOf(std::uint64_t number) const;
  std::size_t Begin(Kind kind, const std::string& key);
  void End(std::size_t place, const absl::Status& status);
  /// The name of what a Get found.
  std::string NameOf(const std::string& key, const std::string& value);
  void EndGet(std::size_t place, const absl::Status& status, const std::string& value, std::uint64_t version);

  const WorkloadOptions options_;
  WorkloadShared& shared_;
  const std::function<Time()> now_;
  std::uint32_t client_;
  History history_;
  std::vector<std::string> complaints_;
  std::uint64_t done_ = 0;

 private:
  std::string Key();
  std::size_t ValueSize();
  /// The value of a register, and its name in the history.
  std::string NewValue(const std::string& key, std::string* name);
  std::optional<Durability> Level();
  std::optional<std::chrono::milliseconds> Ttl();

  std::mt19937_64 random_;
  std::unordered_map<std::string, std::uint64_t> versions_;  // as last seen
};

}  // namespace remora::linear
