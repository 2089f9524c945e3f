// Loading (store/recovery/index_loader.h): a thread's way through its ranges, and the end of it all.
#include "store/recovery/index_loader.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"
#include "store/memory_plan.h"

namespace remora {
namespace {

// Records that are published while the lock is held: some ten microseconds, or, while the index grows, a few
// hundred.
constexpr std::size_t kBatch = 128;
// While somebody else holds the lock, a batch grows rather than that its thread sleeps; then it is so many
// times that.
constexpr std::size_t kMaxBatch = 8 * kBatch;

// A range of keys, on disk: a thread's portion, so that none has much to do when the others have finished.
constexpr std::uint64_t kMinRangeBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxRangeBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kRangesPerThread = 2;
// The same for who loads step by step.
constexpr std::uint64_t kStepBytes = std::uint64_t{16} << 10;
constexpr std::uint64_t kMaxRanges = 1024;
// For less, another thread is not worth the segment that it leaves half empty.
constexpr std::uint64_t kThreadBytes = std::uint64_t{16} << 20;

// Of the memory, what an estimate may make of index in advance.
constexpr std::uint64_t kMaxIndexShare = 8;

}  // namespace

// --- Beginning and end ----------------------------------------------------------------------------------

absl::Status Store::Impl::StartLoad(const StoreOptions& options) {
  const DurableTier::Size size = core_.tier->EstimateSize();
  // At most: each record's header, and what rounding adds.
  const std::uint64_t record_bytes =
      size.bytes + size.bytes / 128 + size.keys * (sizeof(RecordHeader) + kUnitSize);
  const bool fits = MemoryNeeded(size.keys, record_bytes) <= core_.memory_size;
  // What does not is cold, where the index alone fits. Who is to learn at the start that not even that does
  // must not serve before it is known.
  const bool will_do = fits || (evictor_.is_on() && MemoryNeeded(size.keys, 0) <= core_.memory_size);
  const bool steps = options.loading == Loading::kInSteps;
  const bool background = options.loading == Loading::kInBackground && will_do;

  PresizeToLoad(size.keys, fits, will_do);
  std::uint64_t threads =
      options.load_threads != 0 ? options.load_threads : std::thread::hardware_concurrency();
  threads = std::max<std::uint64_t>(steps ? 1 : std::min(threads, size.disk_bytes / kThreadBytes + 1), 1);
  const std::uint64_t range_bytes =
      steps ? kStepBytes
            : std::clamp(size.disk_bytes / (threads * kRangesPerThread), kMinRangeBytes, kMaxRangeBytes);
  load_.ranges = core_.tier->Split(std::clamp<std::uint64_t>(size.disk_bytes / range_bytes, 1, kMaxRanges));
  std::vector<std::string> begins;
  for (const DurableTier::KeyRange& range : load_.ranges) begins.push_back(range.begin());
  core_.coverage.Forget(begins);
  load_.working = threads;
  load_.began = core_.clock.Now();
  core_.metrics.Set(Counter::kLoading, 1);
  core_.loading.store(true, std::memory_order_relaxed);  // nobody else is here yet
  load_.serves = steps || background;
  if (load_.serves) core_.BeginToServe();
  if (steps) {
    load_.stepper.emplace();
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
  core_.BeginToServe();
  return load_.status;
}

// An estimate errs to the larger side. With the half, the index grows once more by itself.
void Store::Impl::PresizeToLoad(std::uint64_t keys, bool fits, bool will_do) {
  const std::uint64_t cheap = core_.shape.memory_size / kMaxIndexShare / sizeof(Bucket) * Index::kPeakLoad;
  const std::uint64_t segments = Index::SegmentsFor(keys);
  load_.index_segments = segments + segments / 16 + 1;  // with its overflow buckets
  if (!fits && keys > cheap) keys = will_do ? keys / 2 : std::min(keys / 2, cheap);
  core_.index.Presize(keys);
}

void Store::Impl::StopLoading() {
  load_.stop.store(true, std::memory_order_relaxed);  // the join orders all else
  for (std::thread& thread : load_.threads) thread.join();
}

void Store::Impl::EndLoad(LoadWorker& worker, const absl::Status& status) {
  const std::lock_guard lock(core_.mutex);
  if (worker.segment) core_.log.Adopt(*worker.segment, core_.clock.Now());
  worker.segment.reset();
  load_.key_count += worker.key_count;
  load_.record_bytes += worker.record_bytes;
  if (load_.status.ok()) load_.status = status;
  if (!status.ok()) load_.stop.store(true, std::memory_order_relaxed);  // as a hint to others
  if (--load_.working > 0) return;

  load_.ranges.clear();
  if (load_.status.ok() && !load_.fits.load(std::memory_order_relaxed)) {
    const std::uint64_t in_memory = evictor_.is_on() ? 0 : load_.record_bytes;
    load_.status = absl::OutOfRangeError(absl::StrCat(
        "what is stored does not fit: ", load_.key_count, " keys with ", load_.record_bytes,
        " bytes of records need a memory of about ", MemoryNeeded(load_.key_count, in_memory),
        " bytes at least, and it has ", core_.memory_size, "; open the store with more (--memory)"));
  }
  SetSizeCounters();
  if (!load_.status.ok()) {
    // What the index does not know may be in the tier, for ever. Release: who sees it reads the status.
    load_.failed.store(true, std::memory_order_release);
    return;
  }
  core_.coverage.LearnAll();
  load_.took = core_.clock.Now() - load_.began;
  core_.metrics.Set(Counter::kLoading, 0);
  // Release: who sees it sees all that was loaded.
  core_.loading.store(false, std::memory_order_release);
}

// --- A thread's way -------------------------------------------------------------------------------------

void Store::Impl::LoadInThread() {
  LoadWorker worker;
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

bool Store::Impl::LoadStep() {
  if (!load_.stepper) return false;
  const absl::StatusOr<bool> more = LoadRange(*load_.stepper);
  if (absl::IsAborted(more.status()) || (more.ok() && *more)) return true;
  EndLoad(*load_.stepper, more.status());
  load_.stepper.reset();
  return false;
}

absl::StatusOr<bool> Store::Impl::LoadRange(LoadWorker& worker) {
  // Relaxed: what it says whether to stop orders nothing.
  const auto stopped = [this] { return load_.stop.load(std::memory_order_relaxed); };
  if (!worker.range) {
    // Relaxed: the ranges were there before the threads.
    const std::size_t number = load_.next_range.fetch_add(1, std::memory_order_relaxed);
    if (number >= load_.ranges.size()) return false;
    worker.range = number;
    worker.batch.reserve(kMaxBatch);
    worker.next_key.clear();
    worker.shown_all = false;
  }
  if (stopped()) return absl::CancelledError("the load was stopped");
  worker.unix_ms = core_.clock.UnixMillis();
  if (!worker.shown_all) {
    const DurableTier::KeyRange& range = load_.ranges[*worker.range];
    REMORA_RETURN_IF_ERROR(
        core_.tier->ForEachFrom(range, worker.next_key, [&](const DurableTier::Entry& entry) {
          if (stopped()) return absl::CancelledError("the load was stopped");
          absl::Status status = LoadEntry(worker, entry);
          if (!status.ok()) worker.next_key = entry.key;  // where it goes on if it was Aborted
          return status;
        }));
    worker.shown_all = true;
  }
  REMORA_RETURN_IF_ERROR(PublishBatch(worker));
  EndRange(worker);
  return true;
}

absl::Status Store::Impl::LoadEntry(LoadWorker& worker, const DurableTier::Entry& entry) {
  const std::size_t waiting = worker.batch.size();
  if (waiting > 0 && waiting % kBatch == 0) {
    std::unique_lock lock(core_.mutex, std::try_to_lock);
    if (!lock && waiting >= kMaxBatch) lock.lock();
    if (lock) REMORA_RETURN_IF_ERROR(PublishLocked(worker));
  }
  // Relaxed: who sees it late loads what is dropped.
  const auto fits = [this] { return load_.fits.load(std::memory_order_relaxed); };
  if (HasExpired(entry.header.expiry_ms, worker.unix_ms)) {
    if (fits()) LoadKey(worker, entry, LoadWorker::Item::Kind::kExpired);
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

absl::Status Store::Impl::LoadSmall(LoadWorker& worker, const DurableTier::Entry& entry) {
  Place place{0, RecordExtentCode(entry.key.size(), entry.value.size())};
  const std::uint64_t size = place.extent_bytes();
  if (size > worker.end - worker.next && !load_.cold.load(std::memory_order_relaxed)) {
    REMORA_RETURN_IF_ERROR(PublishBatch(worker));
    REMORA_RETURN_IF_ERROR(TakeSegment(worker));
    if (!load_.fits.load(std::memory_order_relaxed)) return absl::OkStatus();
  }
  if (size > worker.end - worker.next) {
    LoadKey(worker, entry, LoadWorker::Item::Kind::kCold);
    return absl::OkStatus();
  }
  place.offset_units = worker.next / kUnitSize;
  worker.next += size;
  const std::uint64_t key_hash = HashKey(entry.key);
  core_.index.Prefetch(key_hash);  // it is needed when the batch is full
  core_.log.Lay(place, entry.key, entry.value, entry.header.version, entry.header.expiry_ms, key_hash);
  worker.expiry_ms = std::min(worker.expiry_ms, Segments::ExpiryOf(entry.header.expiry_ms));
  worker.batch.push_back({key_hash, place});
  return absl::OkStatus();
}

void Store::Impl::LoadKey(LoadWorker& worker, const DurableTier::Entry& entry, LoadWorker::Item::Kind kind) {
  const std::uint64_t key_hash = HashKey(entry.key);
  if (kind == LoadWorker::Item::Kind::kCold) {
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

absl::Status Store::Impl::LoadLarge(LoadWorker& worker, const DurableTier::Entry& entry) {
  REMORA_RETURN_IF_ERROR(PublishBatch(worker));  // keys are passed in order
  if (!load_.fits.load(std::memory_order_relaxed)) return absl::OkStatus();
  const absl::StatusOr<Reservation> reserved = ReserveToLoad(entry);
  if (reserved.ok()) return PublishLarge(worker, entry, *reserved);
  if (!absl::IsResourceExhausted(reserved.status())) return reserved.status();
  if (evictor_.is_on()) {
    LoadKey(worker, entry, LoadWorker::Item::Kind::kCold);
  } else {
    load_.fits.store(false, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

absl::StatusOr<Reservation> Store::Impl::ReserveToLoad(const DurableTier::Entry& entry) {
  if (!evictor_.is_on()) return Reserve(entry.key.size(), entry.value.size());
  const std::lock_guard lock(core_.mutex);
  Release(core_.clock.Now());
  if (IsRoomToLoad(RunLength(entry.key.size(), entry.value.size()))) {
    if (const auto place = core_.log.Reserve(entry.key.size(), entry.value.size())) {
      return Reservation{core_.log.MutableBody(*place), entry.key.size()};
    }
  }
  return absl::ResourceExhaustedError("what is free is needed otherwise");
}

absl::Status Store::Impl::PublishLarge(LoadWorker& worker, const DurableTier::Entry& entry,
                                       const Reservation& reserved) {
  // All that takes its time, before the lock is taken.
  std::memcpy(reserved.bytes.data(), entry.key.data(), entry.key.size());
  std::memcpy(reserved.bytes.data() + entry.key.size(), entry.value.data(), entry.value.size());
  const std::uint64_t value_hash = HashValue(entry.value.data(), entry.value.size());
  const std::lock_guard lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  const LoadWorker::Item item{HashKey(entry.key), PlaceOf(reserved)};
  core_.log.Seal(item.place, entry.header.version, entry.header.expiry_ms, item.key_hash, value_hash);
  const absl::StatusOr<Room> room = PublishItem(worker, item, now);
  if (room.ok() && *room == Room::kNow) {
    core_.coverage.Pass(*worker.range, entry.key);
    core_.index.Grow(1, now);
    core_.metrics.Add(Counter::kKeysLoaded, 1);
  } else {
    core_.log.TakeBack(item.place);
  }
  FinishWork();
  return AfterPublishing(room);
}

// --- Under the lock -------------------------------------------------------------------------------------

bool Store::Impl::IsRoomToLoad(std::size_t segments) const {
  const std::uint64_t of_index =
      load_.index_segments - std::min(load_.index_segments, core_.index.segment_count());
  return core_.segments.free_count() >= segments + WantedFree() + of_index;
}

absl::Status Store::Impl::TakeSegment(LoadWorker& worker) {
  const std::lock_guard lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  Release(now);
  if (evictor_.is_on() && !IsRoomToLoad(1)) {
    load_.cold.store(true, std::memory_order_relaxed);  // who sees it later comes here, too
    return absl::OkStatus();
  }
  if (worker.segment) core_.segments.Seal(*worker.segment, worker.next, now);
  worker.segment.reset();
  worker.next = worker.end = 0;
  Room room = Room::kNow;
  while (room == Room::kNow && !worker.segment) {
    worker.segment = core_.segments.Take(Segments::Use::kLogHead, Segments::kReserve);
    if (!worker.segment) room = MakeRoomToLoad(now, worker.unix_ms);
  }
  if (worker.segment) {
    worker.next = core_.segments[*worker.segment].begin;
    worker.end = Segments::EndOf(*worker.segment);
  }
  FinishWork();
  return AfterPublishing(room);
}

Store::Impl::Room Store::Impl::MakeRoomToLoad(TimePoint now, std::int64_t unix_ms) {
  const Room room = MakeRoom(now, unix_ms);
  if (room != Room::kLater || load_.serves) return room;
  Release(now);  // while nobody reads, all that rests may go: a bounded number of things at a time
  return Room::kNow;
}

absl::Status Store::Impl::AfterPublishing(const absl::StatusOr<Room>& room) {
  if (!room.ok()) return room.status();
  if (*room == Room::kLater) return absl::AbortedError("no room until dead memory has rested");
  if (*room == Room::kNever) load_.fits.store(false, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status Store::Impl::PublishBatch(LoadWorker& worker) {
  if (worker.batch.empty()) return absl::OkStatus();
  const std::lock_guard lock(core_.mutex);
  return PublishLocked(worker);
}

absl::Status Store::Impl::PublishLocked(LoadWorker& worker) {
  const TimePoint now = core_.clock.Now();
  Release(now);
  if (worker.segment) {
    core_.segments.Extend(*worker.segment, worker.next);
    core_.segments.NoteExpiry(core_.segments[*worker.segment].begin, worker.expiry_ms);
  }
  cold_sweep_.NoteExpiry(worker.cold_expiry_ms);
  std::size_t loaded = 0;
  absl::StatusOr<Room> room = Room::kNow;
  while (worker.published < worker.batch.size()) {
    const LoadWorker::Item& item = worker.batch[worker.published];
    room = PublishItem(worker, item, now);
    if (!room.ok() || *room != Room::kNow) break;
    ++worker.published;
    loaded += item.kind != LoadWorker::Item::Kind::kExpired;
  }
  if (worker.published > 0) {
    core_.coverage.Pass(*worker.range, KeyOf(worker, worker.batch[worker.published - 1]));
  }
  if (!room.ok() || *room != Room::kLater) EndBatch(worker);
  core_.index.Grow(loaded, now);
  FinishWork();
  core_.metrics.Add(Counter::kKeysLoaded, static_cast<std::int64_t>(loaded));
  return AfterPublishing(room);
}

absl::StatusOr<Store::Impl::Room> Store::Impl::PublishItem(const LoadWorker& worker,
                                                           const LoadWorker::Item& item, TimePoint now) {
  // The index knows better (L1).
  if (core_.coverage.AnyNoted(*worker.range) && core_.coverage.IsNoted(*worker.range, KeyOf(worker, item))) {
    if (item.kind == LoadWorker::Item::Kind::kRecord) core_.log.TakeBack(item.place);
    return Room::kNow;
  }
  switch (item.kind) {
    case LoadWorker::Item::Kind::kRecord:
      break;
    case LoadWorker::Item::Kind::kCold:
      return PublishCold(worker, item, now);
    case LoadWorker::Item::Kind::kExpired:
      sweeper_.RemoveStored(KeyOf(worker, item));
      return Room::kNow;
  }
  for (;;) {
    if (const std::optional<Index::Room> room = core_.index.FindRoom(item.key_hash)) {
      core_.log.MakeLive(item.place);
      core_.index.InsertAt(*room, item.key_hash, item.place);
      return Room::kNow;
    }
    const Room room = MakeRoomToLoad(now, worker.unix_ms);
    if (room != Room::kNow) return room;
  }
}

absl::StatusOr<Store::Impl::Room> Store::Impl::PublishCold(const LoadWorker& worker,
                                                           const LoadWorker::Item& item, TimePoint now) {
  for (;;) {
    switch (core_.index.InsertCold(item.key_hash)) {
      case Index::Entered::kDone:
        return Room::kNow;
      case Index::Entered::kTaken:
        return FetchToLoad(KeyOf(worker, item), item.key_hash);
      case Index::Entered::kNoRoom:
        break;
    }
    const Room room = MakeRoomToLoad(now, worker.unix_ms);
    if (room != Room::kNow) return room;
  }
}

absl::StatusOr<Store::Impl::Room> Store::Impl::FetchToLoad(std::string_view key, std::uint64_t key_hash) {
  for (;;) {
    const absl::Status fetched = FindOrFetch(key, key_hash).status();
    if (fetched.ok()) return Room::kNow;
    if (absl::IsNotFound(fetched)) {  // it has expired by now
      sweeper_.RemoveStored(key);
      return Room::kNow;
    }
    if (absl::IsResourceExhausted(fetched)) return Room::kNever;
    if (!absl::IsAborted(fetched)) return fetched;
    if (load_.serves) return Room::kLater;
    Release(core_.clock.Now());
  }
}

std::string_view Store::Impl::KeyOf(const LoadWorker& worker, const LoadWorker::Item& item) const {
  if (item.kind == LoadWorker::Item::Kind::kRecord) return core_.log.Key(item.place);
  return std::string_view(worker.keys).substr(item.key_begin, item.key_size);
}

void Store::Impl::EndBatch(LoadWorker& worker) {
  // Those for which there is no room, and none will come.
  for (; worker.published < worker.batch.size(); ++worker.published) {
    const LoadWorker::Item& item = worker.batch[worker.published];
    if (item.kind != LoadWorker::Item::Kind::kRecord) continue;
    core_.segments.Drop(item.place.offset_bytes(), item.place.extent_bytes());
  }
  worker.batch.clear();
  worker.keys.clear();
  worker.published = 0;
  worker.expiry_ms = Segments::kNoExpiry;
  worker.cold_expiry_ms = Segments::kNoExpiry;
}

void Store::Impl::EndRange(LoadWorker& worker) {
  const std::lock_guard lock(core_.mutex);
  // Otherwise some of it was only counted.
  if (load_.fits.load(std::memory_order_relaxed)) core_.coverage.PassAll(*worker.range);
  worker.range.reset();
}

}  // namespace remora
