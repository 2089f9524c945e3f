// Costs of the ordered index: memory for each key, insert, erase, scan and count; and an absl::btree_set of
// strings beside it.
//
// REMORA_BENCHMARK_KEYS (default 1000000) sets how many keys the sets have.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "bench/micro/benchmark_keys.h"
#include "store/ordered/ordered_keys.h"

namespace remora {
namespace {

constexpr std::size_t kScanned = 50;  // keys of a scan, the mean of YCSB E

enum Order : std::int64_t { kSequence = 0, kRandom = 1 };

/// Keys as YCSB has them: "user" and 19 digits.
const std::vector<std::string>& KeysIn(std::int64_t order) {
  static const auto make = [](bool random) {
    std::mt19937_64 numbers(1);
    std::vector<std::string> keys;
    for (std::uint64_t i = 0; i < BenchmarkKeys(); ++i) {
      const std::string digits = std::to_string((random ? numbers() : i) % 10'000'000'000'000'000'000u);
      keys.push_back("user" + std::string(19 - digits.size(), '0') + digits);
    }
    return keys;
  };
  static const std::vector<std::string> sequence = make(false);
  static const std::vector<std::string> random = make(true);
  return order == kRandom ? random : sequence;
}

/// Gives an absl::btree_set the interface of OrderedKeys, as far as it is used here.
class AbslKeys {
 public:
  void Insert(const std::string& key) {
    if (keys_.insert(key).second) heap_bytes_ += key.capacity() > 15 ? key.capacity() + 1 : 0;
  }
  void Erase(const std::string& key) { keys_.erase(key); }
  std::size_t Scan(const std::string& begin) const {
    std::size_t bytes = 0;
    std::size_t left = kScanned;
    for (auto key = keys_.lower_bound(begin); key != keys_.end() && left > 0; ++key, --left)
      bytes += key->size();
    return bytes;
  }
  std::uint64_t Count(const std::string& begin, const std::string& end) const {
    return static_cast<std::uint64_t>(std::distance(keys_.lower_bound(begin), keys_.lower_bound(end)));
  }
  std::size_t memory_bytes() const { return keys_.size() * sizeof(std::string) + heap_bytes_; }  // at least

 private:
  absl::btree_set<std::string> keys_;
  std::size_t heap_bytes_ = 0;
};

class TreeKeys {
 public:
  void Insert(const std::string& key) { keys_.Insert(key); }
  void Erase(const std::string& key) { keys_.Erase(key); }
  std::size_t Scan(const std::string& begin) {
    keys_.First(begin, {}, kScanned, &batch_);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < batch_.size(); ++i) bytes += batch_[i].size();
    return bytes;
  }
  std::uint64_t Count(const std::string& begin, const std::string& end) const {
    return keys_.Count(begin, end);
  }
  std::size_t memory_bytes() const { return keys_.memory_bytes(); }

 private:
  OrderedKeys keys_;
  KeyBatch batch_;
};

template <typename Set>
void Fill(std::int64_t order, Set* set) {
  for (const std::string& key : KeysIn(order)) set->Insert(key);
}

template <typename Set>
void BM_Insert(benchmark::State& state) {
  const std::vector<std::string>& keys = KeysIn(state.range(0));
  std::size_t bytes = 0;
  for (auto _ : state) {
    Set set;
    Fill(state.range(0), &set);
    bytes = set.memory_bytes();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(keys.size()));
  state.counters["bytes_per_key"] = static_cast<double>(bytes) / static_cast<double>(keys.size());
}
BENCHMARK(BM_Insert<TreeKeys>)->Arg(kSequence)->Arg(kRandom)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Insert<AbslKeys>)->Arg(kSequence)->Arg(kRandom)->Unit(benchmark::kMillisecond);

template <typename Set>
void BM_EraseAndInsert(benchmark::State& state) {
  Set set;
  Fill(kRandom, &set);
  std::mt19937_64 random(2);
  const std::vector<std::string>& keys = KeysIn(kRandom);
  for (auto _ : state) {
    const std::string& key = keys[random() % keys.size()];
    set.Erase(key);
    set.Insert(key);
  }
}
BENCHMARK(BM_EraseAndInsert<TreeKeys>);
BENCHMARK(BM_EraseAndInsert<AbslKeys>);

template <typename Set>
void BM_Scan50(benchmark::State& state) {
  Set set;
  Fill(kRandom, &set);
  std::mt19937_64 random(3);
  const std::vector<std::string>& keys = KeysIn(kRandom);
  for (auto _ : state) benchmark::DoNotOptimize(set.Scan(keys[random() % keys.size()]));
}
BENCHMARK(BM_Scan50<TreeKeys>);
BENCHMARK(BM_Scan50<AbslKeys>);

template <typename Set>
void BM_CountHalf(benchmark::State& state) {
  Set set;
  Fill(kRandom, &set);
  for (auto _ : state) benchmark::DoNotOptimize(set.Count("user25", "user75"));
}
BENCHMARK(BM_CountHalf<TreeKeys>);
BENCHMARK(BM_CountHalf<AbslKeys>)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace remora

BENCHMARK_MAIN();
