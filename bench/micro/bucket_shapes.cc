// Shapes of index buckets, measured beside each other on tables of 64-bit hashes. Each has a cost of a
// look-up in shared memory, a number of READs, and a number of bytes for each key. The shapes are written
// here and not taken from store/, so that those which the store does not use can be compared with its own.
// docs/performance/index-buckets.md has the results.
//
//   128x15   128 bytes: control word, 15 slots; overflow buckets of the same kind, chained
//   256x31   256 bytes: control word, 31 slots; overflow buckets of the same kind, chained
//   64+64    [main 0][shared][main 1], 64 bytes each: control word, 7 slots; a bucket is one main block and
//            the shared one, 128 contiguous bytes; overflow blocks of 64 bytes, chained to the main block
//
//   hit|miss/SHAPE/READER/LOAD/KEYS   one look-up, each waiting for the one before, as GETs of one client do
//   cycle/SHAPE/LOAD/KEYS             averages while a table grows from half the load to the load (keys per
//                                     bucket), and that load's own figures ("peak_")
//
//   REMORA_BENCHMARK_KEYS=N   keys of the small tables, 1,000,000 when not set; the large ones have 10 N
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "bench/kvbench/load/random.h"
#include "bench/micro/benchmark_keys.h"
#include "store/base/check.h"

namespace remora::bench {
namespace {

using Word = std::uint64_t;
using SlotBits = std::uint32_t;  // bit i: word i of the bytes that one READ brings

// A bijection: different records never have the same hash.
constexpr std::uint64_t HashOf(std::uint64_t record) { return Mix64(record * 0x9e3779b97f4a7c15 + 1); }

constexpr int kFingerprintShift = 52;

// The slot of a hash: the store's 12-bit fingerprint, and where the store has a record's place, what tells
// the hash from all others with that fingerprint. So the record need not be read to know if it is the right
// one.
constexpr Word SlotOf(std::uint64_t hash) {
  return hash >> kFingerprintShift == 0 ? hash | Word{1} << kFingerprintShift : hash;
}

// --- Shapes ------------------------------------------------------------------------------------------------

/// Place of one READ: where it starts in the table, and where in it the control word is.
struct Place {
  std::uint64_t first_word;
  std::size_t control;
};

/// Control and kSlots slots, and overflow buckets of the same kind.
template <std::size_t kSlots>
struct Chained {
  static constexpr std::size_t kWords = kSlots + 1;
  static constexpr std::size_t kOverflowWords = kWords;
  static constexpr std::uint64_t MainWords(std::uint64_t buckets) { return buckets * kWords; }
  static constexpr Place Main(std::uint64_t bucket) { return {bucket * kWords, 0}; }
  /// The main slots, in the order in which they fill.
  static constexpr std::array<SlotBits, 1> Preferred(const Place&) { return {kOverflowSlots}; }
  static constexpr SlotBits kOverflowSlots = ~SlotBits{1} & static_cast<SlotBits>((Word{1} << kWords) - 1);
  static constexpr SlotBits kMainSlots = kOverflowSlots;
};

/// Two main blocks and one between them that they share.
struct Shared {
  static constexpr std::size_t kBlock = 8;
  static constexpr std::size_t kWords = 2 * kBlock;
  static constexpr std::size_t kOverflowWords = kBlock;
  static constexpr std::uint64_t MainWords(std::uint64_t buckets) { return (buckets + 1) / 2 * 3 * kBlock; }
  static constexpr Place Main(std::uint64_t bucket) {
    const std::uint64_t side = bucket % 2;
    return {bucket / 2 * 3 * kBlock + side * kBlock, side * kBlock};
  }
  /// The block that nobody shares first.
  static constexpr std::array<SlotBits, 2> Preferred(const Place& place) {
    const SlotBits main = SlotBits{0xfe} << place.control;
    return {main, kMainSlots & ~main};
  }
  static constexpr SlotBits kOverflowSlots = 0xfe;
  static constexpr SlotBits kMainSlots = 0xfefe;
};

// --- Readers -----------------------------------------------------------------------------------------------

/// Copies as the local transport does, and searches in the plainest way.
struct Plain {
  template <std::size_t kWords>
  static void Copy(const Word* from, Word* to) {
    for (std::size_t i = 0; i < kWords; ++i) to[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
  }
  template <std::size_t kWords>
  static SlotBits Find(const Word* words, Word fingerprint) {
    SlotBits found = 0;
    for (std::size_t i = 0; i < kWords; ++i) {
      found |= static_cast<SlotBits>(words[i] >> kFingerprintShift == fingerprint) << i;
    }
    return found;
  }
};

#ifdef __SSE2__
/// Copies as Plain, and searches 16 words at a time: upper halves, their fingerprints compared, the answers
/// packed to bytes. Every x86-64 has it.
struct Sse2 : Plain {
  static __m128i Equal4(const Word* words, __m128i fingerprint) {
    const __m128i first = _mm_load_si128(reinterpret_cast<const __m128i*>(words));
    const __m128i second = _mm_load_si128(reinterpret_cast<const __m128i*>(words + 2));
    const __m128i upper = _mm_castps_si128(
        _mm_shuffle_ps(_mm_castsi128_ps(first), _mm_castsi128_ps(second), _MM_SHUFFLE(3, 1, 3, 1)));
    return _mm_cmpeq_epi32(_mm_srli_epi32(upper, kFingerprintShift - 32), fingerprint);
  }
  static __m128i Equal8(const Word* words, __m128i fingerprint) {
    return _mm_packs_epi32(Equal4(words, fingerprint), Equal4(words + 4, fingerprint));
  }
  template <std::size_t kWords>
  static SlotBits Find(const Word* words, Word fingerprint) {
    static_assert(kWords % 8 == 0);
    const __m128i wanted = _mm_set1_epi32(static_cast<int>(fingerprint));
    SlotBits found = 0;
    for (std::size_t i = 0; i < kWords; i += 16) {
      const __m128i low = Equal8(words + i, wanted);
      const __m128i high = i + 8 < kWords ? Equal8(words + i + 8, wanted) : _mm_setzero_si128();
      found |= static_cast<SlotBits>(_mm_movemask_epi8(_mm_packs_epi16(low, high))) << i;
    }
    return found;
  }
};

/// Searches as Sse2, in a copy made 16 bytes at a time: a load of 16 bytes has not to wait until two stores
/// of 8 have reached the cache.
struct Sse2Wide : Sse2 {
  template <std::size_t kWords>
  static void Copy(const Word* from, Word* to) {
    for (std::size_t i = 0; i < kWords; i += 2) {
      _mm_store_si128(reinterpret_cast<__m128i*>(to + i),
                      _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
    }
  }
};
#endif

// --- Table -------------------------------------------------------------------------------------------------

/// Result of a look-up. `trace` depends on all that it read.
struct Found {
  bool hit = false;
  std::uint64_t extra_reads = 0;       // beyond the first
  std::uint64_t false_candidates = 0;  // each would cost the READ of a record that is not the key's
  Word trace = 0;
};

/// A table that only grows in keys, in memory of the kind that a server shares with its clients.
template <typename Shape>
class Table {
 public:
  Table(std::uint64_t keys, double load)
      : buckets_(std::max<std::uint64_t>(2, static_cast<std::uint64_t>(static_cast<double>(keys) / load))),
        next_overflow_(Shape::MainWords(buckets_)),
        capacity_(2 * next_overflow_ + 64 * Shape::kOverflowWords) {
    void* const memory = mmap(nullptr, capacity_ * sizeof(Word), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REMORA_CHECK(memory != MAP_FAILED);
    words_ = static_cast<Word*>(memory);
  }
  ~Table() { munmap(words_, capacity_ * sizeof(Word)); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// REQUIRES: `hash` is not in the table.
  void Insert(std::uint64_t hash) {
    ++keys_;
    Place place = Shape::Main(BucketOf(hash));
    for (const SlotBits slots : Shape::Preferred(place)) {
      if (PutIn(place, slots, hash)) return;
    }
    for (;;) {
      ++key_depths_;
      Word& control = words_[place.first_word + place.control];
      if (control == 0) {
        REMORA_CHECK(next_overflow_ + Shape::kOverflowWords <= capacity_);
        control = next_overflow_;
        next_overflow_ += Shape::kOverflowWords;
      }
      place = {control, 0};
      if (PutIn(place, Shape::kOverflowSlots, hash)) return;
    }
  }

  template <typename Reader>
  Found Find(std::uint64_t hash) const {
    Found found;
    const Place place = Shape::Main(BucketOf(hash));
    Word next = FindIn<Reader, Shape::kWords>(place, Shape::kMainSlots, hash, found);
    while (next != 0 && !found.hit) {
      ++found.extra_reads;
      next = FindIn<Reader, Shape::kOverflowWords>({next, 0}, Shape::kOverflowSlots, hash, found);
    }
    return found;
  }

  double bytes_per_key() const {
    return static_cast<double>(next_overflow_ * sizeof(Word)) / static_cast<double>(keys_);
  }
  double slots_used() const {
    // In each shape all blocks are of one size, and each has one word that is no slot.
    constexpr std::uint64_t kBlock = Shape::kOverflowWords;
    const std::uint64_t slots = next_overflow_ / kBlock * (kBlock - 1);
    return static_cast<double>(keys_) / static_cast<double>(slots);
  }
  /// A miss follows its bucket's chain to the end, and each bucket is as likely as the others.
  double extra_reads_per_miss() const {
    const std::uint64_t overflows = (next_overflow_ - Shape::MainWords(buckets_)) / Shape::kOverflowWords;
    return static_cast<double>(overflows) / static_cast<double>(buckets_);
  }
  double extra_reads_per_hit() const { return static_cast<double>(key_depths_) / static_cast<double>(keys_); }

 private:
  // Of the hash's lower half: independent of the fingerprint, and any number of buckets, so that a load is
  // exactly what it is called.
  std::uint64_t BucketOf(std::uint64_t hash) const { return (hash & 0xffffffff) * buckets_ >> 32; }

  bool PutIn(const Place& place, SlotBits slots, std::uint64_t hash) {
    for (; slots != 0; slots &= slots - 1) {
      Word& slot = words_[place.first_word + static_cast<std::size_t>(std::countr_zero(slots))];
      if (slot != 0) continue;
      slot = SlotOf(hash);
      return true;
    }
    return false;
  }

  // Searches the bytes of one READ; returns the next bucket of the chain.
  template <typename Reader, std::size_t kWords>
  Word FindIn(const Place& place, SlotBits slots, std::uint64_t hash, Found& found) const {
    alignas(64) Word copy[kWords];
    Reader::template Copy<kWords>(words_ + place.first_word, copy);
    // The copy is the point, even where the search could do without.
    benchmark::DoNotOptimize(&copy[0]);
    benchmark::ClobberMemory();
    const Word wanted = SlotOf(hash);
    SlotBits candidates = Reader::template Find<kWords>(copy, wanted >> kFingerprintShift) & slots;
    found.trace ^= candidates;
    for (; candidates != 0; candidates &= candidates - 1) {
      const Word slot = copy[std::countr_zero(candidates)];
      found.trace ^= slot;
      if (slot == wanted) {
        found.hit = true;
        break;
      }
      ++found.false_candidates;
    }
    found.trace ^= copy[place.control];
    return copy[place.control];
  }

  const std::uint64_t buckets_;
  std::uint64_t next_overflow_;  // in words; the chain's links are such, and 0 is none
  const std::uint64_t capacity_;
  Word* words_;
  std::uint64_t keys_ = 0;
  std::uint64_t key_depths_ = 0;  // sum over the keys of the READs beyond the first that each takes
};

// --- Benchmarks --------------------------------------------------------------------------------------------

/// Setting of a benchmark, as its name says it.
struct Setting {
  std::string shape;
  double load;  // keys per main bucket
  std::uint64_t keys;
  friend bool operator==(const Setting&, const Setting&) = default;
};

// One at a time, kept from one benchmark to the next when they ask for the same: making it takes seconds.
struct Kept {
  Setting setting;
  std::shared_ptr<const void> table;  // of the shape that the setting names
};
Kept& KeptTable() {
  static Kept kept;
  return kept;
}

template <typename Shape>
const Table<Shape>& TableWith(const Setting& setting) {
  Kept& kept = KeptTable();
  if (kept.table == nullptr || kept.setting != setting) {
    kept.table.reset();
    auto table = std::make_shared<Table<Shape>>(setting.keys, setting.load);
    for (std::uint64_t record = 0; record < setting.keys; ++record) table->Insert(HashOf(record));
    kept = {setting, std::move(table)};
  }
  return *static_cast<const Table<Shape>*>(kept.table.get());
}

// Drawn before the clock runs and stored in the order in which they are used.
std::vector<std::uint64_t> DrawnHashes(const Setting& setting, bool present) {
  constexpr std::uint64_t kMaxDraws = std::uint64_t{1} << 20;
  std::vector<std::uint64_t> hashes(std::clamp<std::uint64_t>(setting.keys, 1024, kMaxDraws));
  Random random(1);
  for (std::uint64_t& hash : hashes) {
    const std::uint64_t record = random.NextBelow(setting.keys);
    hash = HashOf(present ? record : setting.keys + record);
  }
  return hashes;
}

template <typename Shape, typename Reader>
void LookUp(benchmark::State& state, const Setting& setting, bool present) {
  const Table<Shape>& table = TableWith<Shape>(setting);
  const std::vector<std::uint64_t> hashes = DrawnHashes(setting, present);
  std::size_t next = 0;
  std::uint64_t hits = 0;
  std::uint64_t extra_reads = 0;
  std::uint64_t false_candidates = 0;
  Word trace = 0;
  Word zero = 0;
  benchmark::DoNotOptimize(zero);  // the compiler is not to know that the look-ups could overlap
  for (auto _ : state) {
    const Found found = table.template Find<Reader>(hashes[next] ^ (trace & zero));
    if (++next == hashes.size()) next = 0;
    trace = found.trace;
    hits += found.hit ? 1 : 0;
    extra_reads += found.extra_reads;
    false_candidates += found.false_candidates;
  }
  const auto look_ups = static_cast<std::uint64_t>(state.iterations());
  if (hits != (present ? look_ups : 0))
    return state.SkipWithError("a key was missed, or found that is not there");
  const auto per_look_up = [&](std::uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(look_ups);
  };
  state.counters["extra_reads"] = per_look_up(extra_reads);
  state.counters["false_candidates"] = per_look_up(false_candidates);
  state.counters["bytes_per_key"] = table.bytes_per_key();
  state.counters["slots_used"] = table.slots_used();
}

template <typename Shape>
void Cycle(benchmark::State& state, const Setting& setting) {
  for (auto _ : state) {
    Table<Shape> table(setting.keys, setting.load);
    double bytes = 0;
    double miss = 0;
    double hit = 0;
    const std::uint64_t half = setting.keys / 2;
    for (std::uint64_t record = 0; record < setting.keys; ++record) {
      table.Insert(HashOf(record));
      if (record < half) continue;
      bytes += table.bytes_per_key();
      miss += table.extra_reads_per_miss();
      hit += table.extra_reads_per_hit();
    }
    const auto samples = static_cast<double>(setting.keys - half);
    state.counters["bytes_per_key"] = bytes / samples;
    state.counters["extra_per_miss"] = miss / samples;
    state.counters["extra_per_hit"] = hit / samples;
    state.counters["peak_bytes_per_key"] = table.bytes_per_key();
    state.counters["peak_extra_per_miss"] = table.extra_reads_per_miss();
    state.counters["peak_extra_per_hit"] = table.extra_reads_per_hit();
    state.counters["peak_slots_used"] = table.slots_used();
  }
}

// --- Which -------------------------------------------------------------------------------------------------

// The text after the shape, as in the comment at the top.
std::string Suffix(const Setting& setting) {
  std::string load = std::to_string(setting.load);
  load.resize(load.find_last_not_of('0') + 1);
  if (load.back() == '.') load.pop_back();
  return "/" + load + "/" + std::to_string(setting.keys);
}

template <typename Shape, typename Reader>
void RegisterLookUps(const std::string& reader, const Setting& setting) {
  for (const bool present : {true, false}) {
    const std::string name = (present ? "hit/" : "miss/") + setting.shape + "/" + reader + Suffix(setting);
    benchmark::RegisterBenchmark(name.c_str(), [setting, present](benchmark::State& state) {
      LookUp<Shape, Reader>(state, setting, present);
    });
  }
}

template <typename Shape>
void RegisterShape(const std::string& shape, double peak, std::uint64_t keys) {
  for (const double load : {peak / 2, peak}) {
    const Setting setting{shape, load, keys};
    RegisterLookUps<Shape, Plain>("plain", setting);
#ifdef __SSE2__
    RegisterLookUps<Shape, Sse2>("sse2", setting);
    RegisterLookUps<Shape, Sse2Wide>("sse2wide", setting);
#endif
  }
}

template <typename Shape>
void RegisterCycle(const std::string& shape, double peak, std::uint64_t keys) {
  const Setting setting{shape, peak, keys};
  benchmark::RegisterBenchmark(("cycle/" + shape + Suffix(setting)).c_str(),
                               [setting](benchmark::State& state) { Cycle<Shape>(state, setting); })
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

void RegisterAll() {
  for (const std::uint64_t keys : {BenchmarkKeys(), 10 * BenchmarkKeys()}) {
    RegisterShape<Shared>("64+64", 8, keys);
    RegisterShape<Chained<15>>("128x15", 10.7, keys);
    RegisterShape<Chained<31>>("256x31", 24, keys);
  }
  // Peaks at which a bucket has about 12 bytes for a key, and what a bit more or less of load does.
  for (const double peak : {7.0, 8.0}) RegisterCycle<Shared>("64+64", peak, BenchmarkKeys());
  for (const double peak : {9.0, 10.7}) RegisterCycle<Chained<15>>("128x15", peak, BenchmarkKeys());
  for (const double peak : {21.0, 24.0, 25.0}) RegisterCycle<Chained<31>>("256x31", peak, BenchmarkKeys());
}

}  // namespace
}  // namespace remora::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  remora::bench::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
