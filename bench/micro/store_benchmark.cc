// Costs of the parts of the store, and of the store in one process; and an absl::flat_hash_map beside it.
//
// REMORA_BENCHMARK_KEYS (default 1000000) sets how many keys the larger benchmarks use.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "bench/micro/benchmark_keys.h"
#include "store/base/check.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"

namespace remora {
namespace {

constexpr std::size_t kValueSize = 64;

/// Keys of 16 bytes.
const std::vector<std::string>& Keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> made;
    for (std::size_t i = 0; i < BenchmarkKeys(); ++i) {
      const std::string digits = std::to_string(i);
      made.push_back("user" + std::string(12 - digits.size(), '0') + digits);
    }
    return made;
  }();
  return keys;
}

/// Uniform choice of a key, by xorshift: cheap beside what is measured.
class Chooser {
 public:
  const std::string& Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return Keys()[state_ % Keys().size()];
  }

 private:
  std::uint64_t state_ = 88172645463325252u;
};

std::unique_ptr<ServerStore> OpenFull(const StoreOptions& options) {
  auto store = ServerStore::Open(options);
  REMORA_CHECK(store.ok());
  const std::string value(kValueSize, 'v');
  for (const std::string& key : Keys()) REMORA_CHECK((*store)->Put(key, value).ok());
  return *std::move(store);
}

void BM_FindSlots(benchmark::State& state) {
  Bucket bucket{};
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    bucket.slots[i] = EncodeSlot({static_cast<std::uint32_t>(100 + i), 7, 1000 + i});
  }
  std::uint64_t key_hash = 0;
  for (auto _ : state) {
    key_hash += std::uint64_t{1} << 52;
    benchmark::DoNotOptimize(bucket);
    benchmark::DoNotOptimize(FindSlots(bucket, key_hash));
  }
}
BENCHMARK(BM_FindSlots);

void BM_CheckRecord(benchmark::State& state) {
  const std::string key(16, 'k');
  const std::string value(static_cast<std::size_t>(state.range(0)), 'v');
  const std::string body = key + value;
  const std::uint64_t key_hash = HashKey(key);
  RecordHeader header{};
  header.version_live = 5 << 1 | kLiveBit;
  header.key_size = static_cast<std::uint16_t>(key.size());
  header.value_size = static_cast<std::uint32_t>(value.size());
  const RecordPlace place{4711, ExtentUnits(RecordExtentCode(key.size(), value.size())) * kUnitSize, {}, 99};
  header.checksum = RecordChecksum(header, key_hash, HashValue(value.data(), value.size()),
                                   place.offset_units, place.incarnation);
  for (auto _ : state) {
    const RecordState record =
        CheckRecord(header, reinterpret_cast<const std::byte*>(body.data()), key, key_hash, place);
    REMORA_CHECK(record == RecordState::kLive);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(BM_CheckRecord)->Arg(64)->Arg(1024)->Arg(65536);

void BM_StoreGet(benchmark::State& state) {
  const std::unique_ptr<ServerStore> store = OpenFull({.memory_size = std::size_t{512} << 20});
  Chooser chooser;
  std::string value;
  for (auto _ : state) {
    REMORA_CHECK(store->Get(chooser.Next(), &value).ok());
    benchmark::DoNotOptimize(value.data());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(BM_StoreGet);

void BM_StoreGetMissing(benchmark::State& state) {
  const std::unique_ptr<ServerStore> store = OpenFull({.memory_size = std::size_t{512} << 20});
  Chooser chooser;
  std::string key;
  std::string value;
  for (auto _ : state) {
    key = chooser.Next();
    key[0] = 'U';
    REMORA_CHECK(!store->Get(key, &value).ok());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(BM_StoreGetMissing);

// The baseline: no durability, no other process, no writer beside the reader.
void BM_FlatHashMapGet(benchmark::State& state) {
  absl::flat_hash_map<std::string, std::string> map;
  for (const std::string& key : Keys()) map[key] = std::string(kValueSize, 'v');
  Chooser chooser;
  std::string value;
  for (auto _ : state) {
    const auto found = map.find(chooser.Next());
    REMORA_CHECK(found != map.end());
    value = found->second;
    benchmark::DoNotOptimize(value.data());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(BM_FlatHashMapGet);

void Overwrite(benchmark::State& state, const StoreOptions& options) {
  const std::unique_ptr<ServerStore> store = OpenFull(options);
  Chooser chooser;
  const std::string value(kValueSize, 'w');
  for (auto _ : state) REMORA_CHECK(store->Put(chooser.Next(), value).ok());
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

void BM_StorePutMemory(benchmark::State& state) { Overwrite(state, {.memory_size = std::size_t{2} << 30}); }
BENCHMARK(BM_StorePutMemory);

void BM_StorePutMemoryChangeLog(benchmark::State& state) {
  Overwrite(state, {.memory_size = std::size_t{2} << 30, .change_log_bytes = std::uint64_t{64} << 20});
}
BENCHMARK(BM_StorePutMemoryChangeLog);

void BM_StorePutLogged(benchmark::State& state) {
  std::string dir = (std::filesystem::temp_directory_path() / "remora-benchmark-XXXXXX").string();
  REMORA_CHECK(mkdtemp(dir.data()) != nullptr);
  Overwrite(
      state,
      {.memory_size = std::size_t{2} << 30, .durability = Durability::kLogged, .data_dir = dir + "/store"});
  std::filesystem::remove_all(dir);
}
BENCHMARK(BM_StorePutLogged);

/// Puts of new keys, `range` in a group; per write.
void BM_StoreCommitLogged(benchmark::State& state) {
  std::string dir = (std::filesystem::temp_directory_path() / "remora-benchmark-XXXXXX").string();
  REMORA_CHECK(mkdtemp(dir.data()) != nullptr);
  {
    const std::unique_ptr<ServerStore> store = OpenFull(
        {.memory_size = std::size_t{4} << 30, .durability = Durability::kLogged, .data_dir = dir + "/store"});
    Chooser chooser;
    const std::string value(kValueSize, 'w');
    std::vector<Write> writes(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
      for (Write& write : writes) {
        write.key = chooser.Next();
        write.value = value;
      }
      store->Commit(writes);
      REMORA_CHECK(writes.back().status.ok());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
  }
  std::filesystem::remove_all(dir);
}
BENCHMARK(BM_StoreCommitLogged)->Arg(16);

}  // namespace
}  // namespace remora

BENCHMARK_MAIN();
