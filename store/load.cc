// Loading (store/load.h): a thread's way through its ranges, and the end of it all.
#include "store/load.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/format/expiry.h"
#include "store/format/record.h"
#include "store/memory_plan.h"
#include "store/store_impl.h"

namespace remora {
namespace {

// Records that are published while the lock is held: some ten microseconds, or, while the index grows, a few
// hundred.
constexpr std::size_t kBatch = 256;

// A range of keys, on disk: a thread's portion, so that none has much to do when the others have finished.
constexpr std::uint64_t kMinRangeBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxRangeBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kRangesPerThread = 4;
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
  const DurableTier::Size size = tier_->EstimateSize();
  // At most: each record's header, and what rounding adds.
  const std::uint64_t record_bytes =
      size.bytes + size.bytes / 128 + size.keys * (sizeof(RecordHeader) + kUnitSize);
  const bool fits = MemoryNeeded(size.keys, record_bytes) <= memory_size_;
  // Who is to learn at the start that it does not fit must not serve before it is known. And what is evicted
  // while a store loads and serves leaves entries of which nobody knows whose they are (fetch.cc).
  const bool steps = options.loading == Loading::kInSteps;
  const bool background = options.loading == Loading::kInBackground && fits;

  // An estimate errs to the larger side. With the half, it grows once more by itself.
  const std::uint64_t most = shape_.memory_size / kMaxIndexShare / sizeof(Bucket) * Index::kPeakLoad;
  index_.Presize(fits ? size.keys : std::min(size.keys / 2, most));
  std::uint64_t threads =
      options.load_threads != 0 ? options.load_threads : std::thread::hardware_concurrency();
  threads = std::max<std::uint64_t>(steps ? 1 : std::min(threads, size.disk_bytes / kThreadBytes + 1), 1);
  const std::uint64_t range_bytes =
      steps ? kStepBytes
            : std::clamp(size.disk_bytes / (threads * kRangesPerThread), kMinRangeBytes, kMaxRangeBytes);
  load_.ranges = tier_->Split(std::clamp<std::uint64_t>(size.disk_bytes / range_bytes, 1, kMaxRanges));
  load_.working = threads;
  load_.active = true;
  Set(Counter::kLoading, 1);
  loading_.store(true, std::memory_order_relaxed);  // nobody else is here yet
  load_.serves = steps || background;
  if (load_.serves) BeginToServe();
  if (steps) {
    load_.stepper.emplace();
    return absl::OkStatus();
  }
  for (std::uint64_t i = 0; i < threads; ++i) {
    load_.threads.emplace_back([this] { LoadInThread(); });
  }
  if (background) return absl::OkStatus();
  for (std::thread& thread : load_.threads) thread.join();
  load_.threads.clear();
  BeginToServe();
  return load_.status;
}

void Store::Impl::StopLoading() {
  load_.stop.store(true, std::memory_order_relaxed);  // the join orders all else
  for (std::thread& thread : load_.threads) thread.join();
}

void Store::Impl::EndLoad(LoadWorker& worker, const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (worker.segment) log_.Adopt(*worker.segment, clock_.Now());
  worker.segment.reset();
  load_.keys += worker.keys;
  load_.record_bytes += worker.record_bytes;
  if (load_.status.ok()) load_.status = status;
  if (!status.ok()) load_.stop.store(true, std::memory_order_relaxed);  // as a hint to others
  if (--load_.working > 0) return;

  load_.active = false;
  load_.noted = {};
  load_.ranges.clear();
  if (load_.status.ok() && !load_.fits.load(std::memory_order_relaxed)) {
    load_.status = absl::OutOfRangeError(absl::StrCat(
        "what is stored does not fit: ", load_.keys, " keys with ", load_.record_bytes,
        " bytes of records need a memory of about ", MemoryNeeded(load_.keys, load_.record_bytes),
        " bytes at least, and it has ", memory_size_, "; open the store with more (--memory)"));
  }
  SetSizeCounters();
  if (!load_.status.ok()) {
    // What memory does not have may be in the tier, for ever. Release: who sees it reads the status.
    load_.failed.store(true, std::memory_order_release);
    return;
  }
  Set(Counter::kLoading, 0);
  // Release: who sees it sees all that was loaded.
  loading_.store(false, std::memory_order_release);
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
  if (worker.range == nullptr) {
    // Relaxed: the ranges were there before the threads.
    const std::size_t number = load_.next_range.fetch_add(1, std::memory_order_relaxed);
    if (number >= load_.ranges.size()) return false;
    worker.range = &load_.ranges[number];
    worker.taken = 0;
  }
  worker.unix_ms = clock_.UnixMillis();
  std::uint64_t shown = 0;
  const absl::Status all = tier_->ForEach(*worker.range, [&](const DurableTier::Entry& entry) {
    if (shown++ < worker.taken) return absl::OkStatus();
    if (load_.stop.load(std::memory_order_relaxed)) return absl::CancelledError("the load was stopped");
    REMORA_RETURN_IF_ERROR(LoadEntry(worker, entry));
    ++worker.taken;
    return absl::OkStatus();
  });
  REMORA_RETURN_IF_ERROR(all);
  REMORA_RETURN_IF_ERROR(PublishBatch(worker));
  worker.range = nullptr;
  return true;
}

absl::Status Store::Impl::LoadEntry(LoadWorker& worker, const DurableTier::Entry& entry) {
  if (worker.laid.size() == kBatch || worker.expired.size() == kBatch) {
    REMORA_RETURN_IF_ERROR(PublishBatch(worker));
  }
  if (HasExpired(entry.header.expiry_ms, worker.unix_ms)) {
    worker.expired.emplace_back(entry.key);
    return absl::OkStatus();
  }
  if (RunLength(entry.key.size(), entry.value.size()) > 0) return LoadLarge(worker, entry);
  Place place{0, RecordExtentCode(entry.key.size(), entry.value.size())};
  const std::uint64_t size = place.extent_bytes();
  if (load_.fits.load(std::memory_order_relaxed) && size > worker.end - worker.next) {
    REMORA_RETURN_IF_ERROR(PublishBatch(worker));
    REMORA_RETURN_IF_ERROR(TakeSegment(worker));
    if (worker.segment)
      ProvidePages({reinterpret_cast<std::byte*>(&superblock_) + worker.next, kSegmentSize});
  }
  ++worker.keys;
  worker.record_bytes += size;
  if (!load_.fits.load(std::memory_order_relaxed)) return absl::OkStatus();

  place.offset_units = worker.next / kUnitSize;
  worker.next += size;
  const std::uint64_t key_hash = HashKey(entry.key);
  index_.Prefetch(key_hash);  // it is needed when the batch is full
  log_.Lay(place, entry.key, entry.value, entry.header.version, entry.header.expiry_ms, key_hash);
  worker.expiry_ms = std::min(worker.expiry_ms, Segments::ExpiryOf(log_.Header(place)));
  worker.laid.push_back({key_hash, place});
  return absl::OkStatus();
}

absl::Status Store::Impl::LoadLarge(LoadWorker& worker, const DurableTier::Entry& entry) {
  if (load_.fits.load(std::memory_order_relaxed)) {
    const absl::StatusOr<Reservation> reserved = Reserve(entry.key.size(), entry.value.size());
    if (absl::IsAborted(reserved.status())) return reserved.status();
    if (reserved.ok()) {
      REMORA_RETURN_IF_ERROR(PublishLarge(worker, entry, *reserved));
    } else {
      load_.fits.store(false, std::memory_order_relaxed);
    }
  }
  ++worker.keys;
  worker.record_bytes += LogBytes(entry.key.size(), entry.value.size());
  return absl::OkStatus();
}

absl::Status Store::Impl::PublishLarge(LoadWorker& worker, const DurableTier::Entry& entry,
                                       const Reservation& reserved) {
  // All that takes its time, before the lock is taken.
  std::memcpy(reserved.bytes.data(), entry.key.data(), entry.key.size());
  std::memcpy(reserved.bytes.data() + entry.key.size(), entry.value.data(), entry.value.size());
  const std::uint64_t value_hash = HashValue(entry.value.data(), entry.value.size());
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.Now();
  const LoadWorker::Laid laid{HashKey(entry.key), PlaceOf(reserved)};
  log_.Seal(laid.place, entry.header.version, entry.header.expiry_ms, laid.key_hash, value_hash);
  absl::Status status = PublishLaid(laid);
  if (absl::IsAborted(status)) {
    log_.TakeBack(laid.place);
    if (MakeRoomToLoad(now, worker.unix_ms) == Room::kNever) {
      load_.fits.store(false, std::memory_order_relaxed);
      status = absl::OkStatus();
    }
  } else if (status.ok()) {
    index_.Grow(1, now);
    Add(Counter::kKeysLoaded, 1);
  }
  FinishWork();
  return status;
}

// --- Under the lock -------------------------------------------------------------------------------------

absl::Status Store::Impl::TakeSegment(LoadWorker& worker) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.Now();
  Release(now);
  if (worker.segment) segments_.Seal(*worker.segment, worker.next, now);
  worker.segment.reset();
  worker.next = worker.end = 0;
  Room room = Room::kNow;
  while (room == Room::kNow) {
    worker.segment = segments_.Take(Segments::Use::kLogHead, Segments::kReserve);
    if (worker.segment) {
      worker.next = segments_[*worker.segment].begin;
      worker.end = Segments::EndOf(*worker.segment);
      break;
    }
    room = MakeRoomToLoad(now, worker.unix_ms);
  }
  FinishWork();
  if (room == Room::kLater) return absl::AbortedError("no room until dead memory has rested");
  if (room == Room::kNever) load_.fits.store(false, std::memory_order_relaxed);
  return absl::OkStatus();
}

Store::Impl::Room Store::Impl::MakeRoomToLoad(TimePoint now, std::int64_t unix_ms) {
  const Room room = MakeRoom(now, unix_ms);
  if (room != Room::kLater || load_.serves) return room;
  Release(now);  // while nobody reads, all that rests may go: a bounded number of things at a time
  return Room::kNow;
}

absl::Status Store::Impl::PublishBatch(LoadWorker& worker) {
  if (worker.laid.empty() && worker.expired.empty()) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.Now();
  Release(now);
  if (!worker.laid.empty()) {
    segments_.Extend(*worker.segment, worker.next);
    segments_.NoteExpiry(segments_[*worker.segment].begin, worker.expiry_ms);
  }
  const std::size_t before = worker.published;
  absl::Status status;
  while (worker.published < worker.laid.size() && status.ok()) {
    status = PublishLaid(worker.laid[worker.published]);
    if (status.ok()) ++worker.published;
    if (!absl::IsAborted(status)) continue;
    const Room room = MakeRoomToLoad(now, worker.unix_ms);
    if (room == Room::kLater) break;
    status = absl::OkStatus();
    if (room == Room::kNow) continue;
    load_.fits.store(false, std::memory_order_relaxed);
    break;
  }
  const std::size_t count = worker.published - before;
  if (!absl::IsAborted(status)) EndBatch(worker);
  index_.Grow(count, now);
  FinishWork();
  Add(Counter::kKeysLoaded, static_cast<std::int64_t>(count));
  return status;
}

absl::Status Store::Impl::PublishLaid(const LoadWorker::Laid& laid) {
  if (!load_.noted.empty() && load_.noted.contains(laid.key_hash)) {
    REMORA_ASSIGN_OR_RETURN(const bool current, IsCurrent(laid));
    if (!current) {
      log_.TakeBack(laid.place);
      return absl::OkStatus();
    }
  }
  const std::optional<Index::Room> room = index_.FindRoom(laid.key_hash);
  if (!room) return absl::AbortedError("no room in the index");
  log_.MakeLive(laid.place);
  index_.InsertAt(*room, laid.key_hash, laid.place);
  return absl::OkStatus();
}

absl::StatusOr<bool> Store::Impl::IsCurrent(const LoadWorker::Laid& laid) {
  const std::string_view key = log_.Key(laid.place);
  if (index_.Find(key, laid.key_hash)) return false;
  // Deleted, or written and evicted since; or it was another key of this hash that was noted.
  std::uint64_t version = 0;
  const absl::Status read = tier_->Get(key, [&](const DurableTier::Entry& entry) {
    version = entry.header.version;
    return absl::OkStatus();
  });
  if (!read.ok() && !absl::IsNotFound(read)) return read;
  return version == log_.Header(laid.place).version_live >> 1;
}

void Store::Impl::EndBatch(LoadWorker& worker) {
  // Those for which there is no room, and none will come.
  for (; worker.published < worker.laid.size(); ++worker.published) {
    const Place& place = worker.laid[worker.published].place;
    segments_.Drop(place.offset_bytes(), place.extent_bytes());
  }
  for (const std::string& key : worker.expired) {
    if (load_.noted.contains(HashKey(key))) continue;  // it may have been written again
    tier_->Delete(key);
    ++expired_before_start_;
  }
  // When it fails, the tier keeps what has expired; it counts for nothing there, and the next load drops it.
  if (!worker.expired.empty()) tier_->Write().IgnoreError();
  worker.laid.clear();
  worker.published = 0;
  worker.expiry_ms = Segments::kNoExpiry;
  worker.expired.clear();
}

}  // namespace remora
