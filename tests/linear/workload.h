// A client that uses a store in every way, at random, and notes what it asked and was told.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/behaviour/deployment.h"
#include "tests/linear/operation.h"

namespace remora::linear {

struct WorkloadOptions {
  std::uint64_t seed = 1;
  std::uint32_t keys = 8;      // of values that say whose they are
  std::uint32_t counters = 1;  // that are incremented
  std::uint32_t lists = 1;     // that are appended to
  std::size_t max_value = 2000;
  std::uint32_t large_permille = 0;  // of puts, with values that do not pass through a slice
  std::uint32_t read_percent = 50;
  bool ttls = true;
  bool scans = false;         // where the store keeps an order
  bool durabilities = false;  // each write names one
};

/// What clients of one store share. Any thread.
struct WorkloadShared {
  std::atomic<std::uint64_t> values = 0;   // each value has a number of its own
  std::atomic<std::uint64_t> batches = 0;  // each batch, too
};

class Worker {
 public:
  /// `now`: the history's time, which goes on.
  Worker(const WorkloadOptions& options, std::uint32_t client, WorkloadShared& shared,
         std::function<Time()> now);

  /// Does something. What it began is in the history also where this throws.
  void Do(KeyValue& kv);
  /// Reads every key, in the end.
  void ReadAll(KeyValue& kv);

  History& history() { return history_; }
  /// What no store may answer, whatever the order.
  const std::vector<std::string>& complaints() const { return complaints_; }
  std::uint64_t done() const { return done_; }

 private:
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }
  std::string Key();
  std::string AnyKey();
  std::size_t ValueSize();
  /// The value of a register, and its name in the history.
  std::string NewValue(const std::string& key, std::string* name);
  std::optional<Durability> Level();
  std::optional<std::chrono::milliseconds> Ttl();

  std::size_t Begin(Kind kind, const std::string& key);
  void End(std::size_t place, const absl::Status& status);
  /// The name of what a Get found.
  std::string NameOf(const std::string& key, const std::string& value);
  void EndGet(std::size_t place, const absl::Status& status, const std::string& value, std::uint64_t version);

  void Get(KeyValue& kv, const std::string& key);
  void Exists(KeyValue& kv);
  void MultiGet(KeyValue& kv);
  void Put(KeyValue& kv);
  void Delete(KeyValue& kv);
  void Touch(KeyValue& kv);
  void Increment(KeyValue& kv);
  void Append(KeyValue& kv);
  void Batch(KeyValue& kv);
  void Scan(KeyValue& kv);

  const WorkloadOptions options_;
  const std::uint32_t client_;
  WorkloadShared& shared_;
  const std::function<Time()> now_;
  std::mt19937_64 random_;
  History history_;
  std::vector<std::string> complaints_;
  std::unordered_map<std::string, std::uint64_t> versions_;  // as last seen
  std::string value_;
  std::uint64_t done_ = 0;
};

}  // namespace remora::linear
