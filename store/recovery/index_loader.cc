// Loading (store/recovery/index_loader.h): its beginning and end, a thread's path through its ranges, and
// publishing under the lock.
#include "store/recovery/index_loader.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"
#include "store/memory_plan.h"

namespace remora {
namespace {

// Items that a thread publishes in one hold of the lock. They take some ten microseconds, or a few hundred
// while the index grows.
constexpr std::size_t kBatch = 128;
// While another thread holds the lock, a loading thread lets its batch grow up to this size, and only then
// waits for the lock.
constexpr std::size_t kMaxBatch = 8 * kBatch;

// Bytes on disk of a range of keys. Ranges are small, so that no thread has much left to do when the others
// have finished.
constexpr std::uint64_t kMinRangeBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxRangeBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kRangesPerThread = 2;
// Bytes on disk of a range with Loading::kInSteps.
constexpr std::uint64_t kStepBytes = std::uint64_t{16} << 10;
constexpr std::uint64_t kMaxRanges = 1024;
// Bytes on disk that justify another thread: each thread leaves a segment half empty.
constexpr std::uint64_t kThreadBytes = std::uint64_t{16} << 20;

// Divisor of the memory. Presize makes an index of up to this share at once, even if an estimate says that
// not all fits.
constexpr std::uint64_t kMaxIndexShare = 8;

}  // namespace

// --- Beginning and end ----------------------------------------------------------------------------------

absl::Status IndexLoader::Start(const StoreOptions& options) {
  const DurableTier::Size size = core_.tier->EstimateSize();
  // An upper bound: it adds each record's header, and rounding.
  const std::uint64_t record_bytes =
      size.bytes + size.bytes / 128 + size.keys * (sizeof(RecordHeader) + kUnitSize);
  const bool fits = MemoryNeeded(size.keys, record_bytes) <= core_.memory_size;
  // With eviction, the other records are cold if the index alone fits. If not even the index may fit, Open
  // must report that, so a load in the background becomes one before Open returns.
  const bool will_do = fits || (space_.evictor().is_on() && MemoryNeeded(size.keys, 0) <= core_.memory_size);
  const bool steps = options.loading == Loading::kInSteps;
  const bool background = options.loading == Loading::kInBackground && will_do;

  Presize(size.keys, fits, will_do);
  std::uint64_t threads =
      options.load_threads != 0 ? options.load_threads : std::thread::hardware_concurrency();
  threads = std::max<std::uint64_t>(steps ? 1 : std::min(threads, size.disk_bytes / kThreadBytes + 1), 1);
  const std::uint64_t range_bytes =
      steps ? kStepBytes
            : std::clamp(size.disk_bytes / (threads * kRangesPerThread), kMinRangeBytes, kMaxRangeBytes);
  load_.ranges = core_.tier->Split(std::clamp<std::uint64_t>(size.disk_bytes / range_bytes, 1, kMaxRanges));
  std::vector<std::string> begins;
  for (const DurableTier::KeyRange& range : load_.ranges) begins.push_back(range.begin());
  {
    const WriterLock lock(core_.mutex);
    core_.coverage.Begin(begins);
  }
  load_.working = threads;
  load_.began = core_.clock.Now();
  core_.metrics.Set(Metric::kLoading, 1);
  core_.loading.store(true, std::memory_order_relaxed);  // no other thread runs yet
  load_.serves = steps || background;
  if (load_.serves) BeginToServe();
  if (steps) {
    load_.stepper = std::make_unique<Worker>();
    return absl::OkStatus();
  }
  for (std::uint64_t i = 0; i < threads; ++i) {
    auto thread = StartThread([this] { return std::thread([this] { LoadInThread(); }); });
    if (!thread.ok()) return std::move(thread).status();
    load_.threads.push_back(*std::move(thread));
  }
  if (background) return absl::OkStatus();
  for (std::thread& thread : load_.threads) thread.join();
  load_.threads.clear();
  BeginToServe();
  return load_.status;
}

void IndexLoader::BeginToServe() {
  const WriterLock lock(core_.mutex);
  core_.BeginToServe();
}

// An estimate errs on the high side. If it is right, an index that is presized for half of the keys grows
// once more by itself.
void IndexLoader::Presize(std::uint64_t keys, bool fits, bool will_do) {
  const std::uint64_t cheap = core_.shape.memory_size / kMaxIndexShare / sizeof(Bucket) * Index::kPeakLoad;
  const std::uint64_t segments = Index::SegmentsFor(keys);
  load_.index_segments = segments + segments / 16 + 1;  // with overflow buckets
  if (!fits && keys > cheap) keys = will_do ? keys / 2 : std::min(keys / 2, cheap);
  core_.index.Presize(keys);
}

void IndexLoader::Stop() {
  load_.stop.store(true, std::memory_order_relaxed);  // relaxed: the join orders all other accesses
  for (std::thread& thread : load_.threads) thread.join();
}

void IndexLoader::EndLoad(Worker& worker, const absl::Status& status) {
  const WriterLock lock(core_.mutex);
  if (worker.segment) core_.log.Adopt(*worker.segment, core_.clock.Now());
  worker.segment.reset();
  load_.key_count += worker.key_count;
  load_.record_bytes += worker.record_bytes;
  if (load_.status.ok()) load_.status = status;
  if (!status.ok()) load_.stop.store(true, std::memory_order_relaxed);  // relaxed: a hint to other threads
  if (--load_.working > 0) return;

  load_.ranges.clear();
  if (load_.status.ok() && !load_.fits.load(std::memory_order_relaxed)) {
    const std::uint64_t in_memory = space_.evictor().is_on() ? 0 : load_.record_bytes;
    load_.status = absl::OutOfRangeError(absl::StrCat(
        "load: the data does not fit: ", load_.key_count, " keys with ", load_.record_bytes,
        " bytes of records need a memory of about ", MemoryNeeded(load_.key_count, in_memory),
        " bytes at least, and it has ", core_.memory_size, "; open the store with more (--memory)"));
  }
  maintenance_.SetSizeCounters();
  if (!load_.status.ok()) {
    // Keys that the index does not know may be in the tier, for ever. Release: a thread that sees `failed`
    // reads the status.
    load_.failed.store(true, std::memory_order_release);
    return;
  }
  core_.coverage.CoverAll();
  load_.took = core_.clock.Now() - load_.began;
  core_.metrics.Set(Metric::kLoading, 0);
  // Release: a thread that sees false also sees all that was loaded.
  core_.loading.store(false, std::memory_order_release);
}

absl::Status IndexLoader::status() const {
  return load_.failed.load(std::memory_order_acquire) ? load_.status : absl::OkStatus();
}

// --- A thread's path ------------------------------------------------------------------------------------

void IndexLoader::LoadInThread() {
  Worker worker;
  for (;;) {
    const absl::StatusOr<bool> more = LoadRange(worker);
    if (absl::IsAborted(more.status())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    if (more.ok() && *more) continue;
    return EndLoad(worker, more.status());
  }
}

bool IndexLoader::Step() {
  if (!load_.stepper) return false;
  const absl::StatusOr<bool> more = LoadRange(*load_.stepper);
  if (absl::IsAborted(more.status()) || (more.ok() && *more)) return true;
  EndLoad(*load_.stepper, more.status());
  load_.stepper.reset();
  return false;
}

absl::StatusOr<bool> IndexLoader::LoadRange(Worker& worker) {
  // Relaxed: the flag orders no other access.
  const auto stopped = [this] { return load_.stop.load(std::memory_order_relaxed); };
  if (!worker.range) {
    // Relaxed: the ranges were complete before the threads started.
    const std::size_t number = load_.next_range.fetch_add(1, std::memory_order_relaxed);
    if (number >= load_.ranges.size()) return false;
    worker.range = number;
    worker.batch.reserve(kMaxBatch);
    worker.next_key.clear();
    worker.shown_all = false;
  }
  if (stopped()) return absl::CancelledError("load: it was stopped");
  worker.unix_ms = core_.clock.UnixMillis();
  if (!worker.shown_all) {
    const DurableTier::KeyRange& range = load_.ranges[*worker.range];
    REMORA_RETURN_IF_ERROR(
        core_.tier->ForEachFrom(range, worker.next_key, [&](const DurableTier::Entry& entry) {
          if (stopped()) return absl::CancelledError("load: it was stopped");
          absl::Status status = LoadEntry(worker, entry);
          if (!status.ok()) worker.next_key = entry.key;  // the next call continues here after Aborted
          return status;
        }));
    worker.shown_all = true;
  }
  REMORA_RETURN_IF_ERROR(PublishBatch(worker));
  EndRange(worker);
  return true;
}

absl::Status IndexLoader::LoadEntry(Worker& worker, const DurableTier::Entry& entry) {
  if (!core_.slots.Has(entry.key)) return absl::OkStatus();  // O1 of owned_slots.h
  const std::size_t waiting = worker.batch.size();
  if (waiting > 0 && waiting % kBatch == 0) {
    REMORA_RETURN_IF_ERROR(PublishIfFree(worker));
  }
  // Relaxed: a thread that sees the change late loads some entries in vain.
  const auto fits = [this] { return load_.fits.load(std::memory_order_relaxed); };
  if (HasExpired(entry.header.expiry_ms, worker.unix_ms) && !core_.is_following()) {
    if (fits()) LoadKey(worker, entry, Worker::Item::Kind::kExpired);
    return absl::OkStatus();
  }
  if (fits()) {
    const bool large = RunLength(entry.key.size(), entry.value.size()) > 0;
    REMORA_RETURN_IF_ERROR(large ? LoadLarge(worker, entry) : LoadSmall(worker, entry));
  }
  ++worker.key_count;
  worker.record_bytes += LogBytes(entry.key.size(), entry.value.size());
  return absl::OkStatus();
}

absl::Status IndexLoader::PublishIfFree(Worker& worker) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(core_.mutex, std::try_to_lock);
  if (!lock && worker.batch.size() >= kMaxBatch) lock.lock();
  return lock ? PublishLocked(worker) : absl::OkStatus();
}

absl::Status IndexLoader::LoadSmall(Worker& worker, const DurableTier::Entry& entry) {
  Place place{0, RecordExtentCode(entry.key.size(), entry.value.size())};
  const std::uint64_t size = place.extent_bytes();
  if (size > worker.end - worker.next && !load_.cold.load(std::memory_order_relaxed)) {
    REMORA_RETURN_IF_ERROR(PublishBatch(worker));
    REMORA_RETURN_IF_ERROR(TakeSegment(worker));
    if (!load_.fits.load(std::memory_order_relaxed)) return absl::OkStatus();
  }
  if (size > worker.end - worker.next) {
    LoadKey(worker, entry, Worker::Item::Kind::kCold);
    return absl::OkStatus();
  }
  place.offset_units = worker.next / kUnitSize;
  worker.next += size;
  const std::uint64_t key_hash = HashKey(entry.key);
  core_.index.Prefetch(key_hash);  // PublishLocked needs it when the batch is full
  core_.log.WriteSealed(place, entry.key, entry.value, entry.header.version, entry.header.expiry_ms,
                        key_hash);
  worker.batch.push_back({key_hash, place});
  return absl::OkStatus();
}

void IndexLoader::LoadKey(Worker& worker, const DurableTier::Entry& entry, Worker::Item::Kind kind) {
  const std::uint64_t key_hash = HashKey(entry.key);
  if (kind == Worker::Item::Kind::kCold) {
    core_.index.PrefetchBucket(key_hash);
    worker.cold_expiry_ms = std::min(worker.cold_expiry_ms, Segments::ExpiryOf(entry.header.expiry_ms));
  }
  worker.batch.push_back({key_hash,
                          {},
                          static_cast<std::uint32_t>(worker.keys.size()),
                          static_cast<std::uint16_t>(entry.key.size()),
                          kind});
  worker.keys.append(entry.key);
}

absl::Status IndexLoader::LoadLarge(Worker& worker, const DurableTier::Entry& entry) {
  REMORA_RETURN_IF_ERROR(PublishBatch(worker));  // the load passes keys in their order
  if (!load_.fits.load(std::memory_order_relaxed)) return absl::OkStatus();
  const absl::StatusOr<Reservation> reserved = ReserveToLoad(entry);
  if (reserved.ok()) return PublishLarge(worker, entry, *reserved);
  if (!absl::IsResourceExhausted(reserved.status())) return reserved.status();
  if (space_.evictor().is_on()) {
    LoadKey(worker, entry, Worker::Item::Kind::kCold);
  } else {
    load_.fits.store(false, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

absl::StatusOr<Reservation> IndexLoader::ReserveToLoad(const DurableTier::Entry& entry) {
  if (!space_.evictor().is_on()) return large_.Reserve(entry.key.size(), entry.value.size());
  const WriterLock lock(core_.mutex);
  space_.ReleaseRetired(core_.clock.Now());
  if (HasSpaceToLoad(RunLength(entry.key.size(), entry.value.size()))) {
    if (const auto place = core_.log.Reserve(entry.key.size(), entry.value.size())) {
      return Reservation{core_.log.MutableBody(*place), entry.key.size()};
    }
  }
  return absl::ResourceExhaustedError("load: the free memory is reserved for writes");
}

absl::Status IndexLoader::PublishLarge(Worker& worker, const DurableTier::Entry& entry,
                                       const Reservation& reserved) {
  // To copy and hash a large value takes long, so the thread does it before it takes the lock.
  std::memcpy(reserved.bytes.data(), entry.key.data(), entry.key.size());
  std::memcpy(reserved.bytes.data() + entry.key.size(), entry.value.data(), entry.value.size());
  const std::uint64_t value_hash = HashValue(entry.value.data(), entry.value.size());
  const WriterLock lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  const Worker::Item item{HashKey(entry.key), large_.PlaceOf(reserved)};
  core_.log.Seal(item.place, entry.header.version, entry.header.expiry_ms, item.key_hash, value_hash);
  const absl::StatusOr<SpaceResult> result = PublishItem(worker, item, now);
  if (result.ok() && *result == SpaceResult::kAvailable) {
    core_.coverage.Advance(*worker.range, entry.key);
    core_.index.Grow(1, now);
    core_.metrics.Add(Metric::kKeysLoaded, 1);
  } else {
    core_.log.Rollback(item.place);
  }
  maintenance_.Finish();
  return AfterPublishing(result);
}

// --- Under the lock -------------------------------------------------------------------------------------

bool IndexLoader::HasSpaceToLoad(std::size_t segments) const {
  const std::uint64_t of_index =
      load_.index_segments - std::min(load_.index_segments, core_.index.segment_count());
  return core_.segments.free_count() >= segments + space_.WantedFree() + of_index;
}

absl::Status IndexLoader::TakeSegment(Worker& worker) {
  const WriterLock lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  space_.ReleaseRetired(now);
  if (space_.evictor().is_on() && !HasSpaceToLoad(1)) {
    load_.cold.store(true, std::memory_order_relaxed);  // relaxed: a thread that sees it late comes here, too
    return absl::OkStatus();
  }
  if (worker.segment) core_.segments.Seal(*worker.segment, worker.next, now);
  worker.segment.reset();
  worker.next = worker.end = 0;
  SpaceResult result = SpaceResult::kAvailable;
  while (result == SpaceResult::kAvailable && !worker.segment) {
    worker.segment = core_.segments.Take(Segments::Use::kLogHead, Segments::kReserve);
    if (!worker.segment) result = MakeSpaceToLoad(now, worker.unix_ms);
  }
  if (worker.segment) {
    worker.next = core_.segments[*worker.segment].begin;
    worker.end = Segments::EndOf(*worker.segment);
  }
  maintenance_.Finish();
  return AfterPublishing(result);
}

SpaceResult IndexLoader::MakeSpaceToLoad(TimePoint now, std::int64_t unix_ms) {
  const SpaceResult result = space_.MakeSpace(now, unix_ms);
  if (result != SpaceResult::kRetryLater || load_.serves) return result;
  // Without readers, all retired memory may be reused. Each call releases a bounded amount.
  space_.ReleaseRetired(now);
  return SpaceResult::kAvailable;
}

absl::Status IndexLoader::AfterPublishing(const absl::StatusOr<SpaceResult>& result) {
  if (!result.ok()) return result.status();
  if (*result == SpaceResult::kRetryLater)
    return absl::AbortedError("load: no space until the grace period of retired memory ends");
  if (*result == SpaceResult::kFull) load_.fits.store(false, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status IndexLoader::PublishBatch(Worker& worker) {
  if (worker.batch.empty()) return absl::OkStatus();
  const WriterLock lock(core_.mutex);
  return PublishLocked(worker);
}

absl::Status IndexLoader::PublishLocked(Worker& worker) {
  const TimePoint now = core_.clock.Now();
  space_.ReleaseRetired(now);
  if (worker.segment) core_.segments.Extend(*worker.segment, worker.next);
  space_.cold_expirer().NoteExpiry(worker.cold_expiry_ms);
  std::size_t loaded = 0;
  absl::StatusOr<SpaceResult> result = SpaceResult::kAvailable;
  while (worker.published < worker.batch.size()) {
    const Worker::Item& item = worker.batch[worker.published];
    result = PublishItem(worker, item, now);
    if (!result.ok() || *result != SpaceResult::kAvailable) break;
    ++worker.published;
    loaded += item.kind != Worker::Item::Kind::kExpired;
  }
  if (worker.published > 0) {
    core_.coverage.Advance(*worker.range, KeyOf(worker, worker.batch[worker.published - 1]));
  }
  if (!result.ok() || *result != SpaceResult::kRetryLater) EndBatch(worker);
  core_.index.Grow(loaded, now);
  maintenance_.Finish();
  core_.metrics.Add(Metric::kKeysLoaded, static_cast<std::int64_t>(loaded));
  return AfterPublishing(result);
}

absl::StatusOr<SpaceResult> IndexLoader::PublishItem(const Worker& worker, const Worker::Item& item,
                                                     TimePoint now) {
  // The index knows the key already, so the tier's entry may be out of date (L1).
  if (core_.coverage.HasAdded(*worker.range) && core_.coverage.IsAdded(*worker.range, KeyOf(worker, item))) {
    if (item.kind == Worker::Item::Kind::kRecord) core_.log.Rollback(item.place);
    return SpaceResult::kAvailable;
  }
  switch (item.kind) {
    case Worker::Item::Kind::kRecord:
      break;
    case Worker::Item::Kind::kCold:
      return PublishCold(worker, item, now);
    case Worker::Item::Kind::kExpired:
      space_.expirer().RemoveStored(KeyOf(worker, item));
      return SpaceResult::kAvailable;
  }
  for (;;) {
    if (const std::optional<Index::Space> space = core_.index.FindSpace(item.key_hash)) {
      core_.log.MakeLive(item.place);
      core_.NoteLoad(core_.log.Key(item.place));
      core_.index.InsertAt(*space, item.key_hash, item.place);
      return SpaceResult::kAvailable;
    }
    const SpaceResult result = MakeSpaceToLoad(now, worker.unix_ms);
    if (result != SpaceResult::kAvailable) return result;
  }
}

absl::StatusOr<SpaceResult> IndexLoader::PublishCold(const Worker& worker, const Worker::Item& item,
                                                     TimePoint now) {
  for (;;) {
    switch (core_.index.InsertCold(item.key_hash)) {
      case Index::Entered::kDone:
        core_.NoteLoad(KeyOf(worker, item));
        return SpaceResult::kAvailable;
      case Index::Entered::kTaken:
        return PromoteToLoad(KeyOf(worker, item), item.key_hash);
      case Index::Entered::kNoSpace:
        break;
    }
    const SpaceResult result = MakeSpaceToLoad(now, worker.unix_ms);
    if (result != SpaceResult::kAvailable) return result;
  }
}

absl::StatusOr<SpaceResult> IndexLoader::PromoteToLoad(std::string_view key, std::uint64_t key_hash) {
  for (;;) {
    const absl::Status fetched = promoter_.FindOrPromote(key, key_hash).status();
    if (fetched.ok()) return SpaceResult::kAvailable;
    if (absl::IsNotFound(fetched)) {  // the key has expired meanwhile
      space_.expirer().RemoveStored(key);
      return SpaceResult::kAvailable;
    }
    if (absl::IsResourceExhausted(fetched)) return SpaceResult::kFull;
    if (!absl::IsAborted(fetched)) return fetched;
    if (load_.serves) return SpaceResult::kRetryLater;
    space_.ReleaseRetired(core_.clock.Now());
  }
}

std::string_view IndexLoader::KeyOf(const Worker& worker, const Worker::Item& item) const {
  if (item.kind == Worker::Item::Kind::kRecord) return core_.log.Key(item.place);
  return std::string_view(worker.keys).substr(item.key_begin, item.key_size);
}

void IndexLoader::EndBatch(Worker& worker) {
  // The items that are left have no space, and will get none.
  for (; worker.published < worker.batch.size(); ++worker.published) {
    const Worker::Item& item = worker.batch[worker.published];
    if (item.kind != Worker::Item::Kind::kRecord) continue;
    core_.segments.Drop(item.place.offset_bytes(), item.place.extent_bytes());
  }
  worker.batch.clear();
  worker.keys.clear();
  worker.published = 0;
  worker.cold_expiry_ms = Segments::kNoExpiry;
}

void IndexLoader::EndRange(Worker& worker) {
  const WriterLock lock(core_.mutex);
  // Otherwise the thread only counted some entries of the range.
  if (load_.fits.load(std::memory_order_relaxed)) core_.coverage.AdvanceToEnd(*worker.range);
  worker.range.reset();
}

}  // namespace remora
