#include "store/delete_range.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/engine/store_engine.h"
#include "store/format/types/bounds.h"
#include "store/format/types/expiry.h"
#include "store/format/types/scan_range.h"
#include "store/read/cold_read.h"
#include "store/read/index_walk.h"
#include "store/server_store.h"
#include "store/store.h"
#include "store/write/write.h"
#include "store/write/write_pipeline.h"

namespace remora {
namespace {

// Bounds of one step, which takes about half a millisecond.
constexpr std::size_t kMaxKeys = 256;
constexpr std::size_t kMaxLooks = 1024;                  // entries of the durable tier
constexpr std::size_t kMaxBuckets = 256;                 // buckets of the index
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;  // values of cold keys, which scans may need (V5)

// Space for pending writes comes two grace periods after memory was retired; or it never comes.
constexpr std::chrono::seconds kBeginPatience{5};

}  // namespace

// The keys come from the ordered index, if the store has one that has all keys. Else they come from the
// durable tier, as of one moment, or, in a store without one, from the hash index.
struct RangeDeletion::Rep {
  /// A key to delete, as of the version that was found.
  struct Target {
    std::string key;
    std::uint64_t version = 0;
    std::unique_ptr<ColdRead> read{};  // of the deletion of a cold key: the tier's record
  };

  StoreEngine& engine;
  const ScanRange range;
  const std::uint64_t versions_end;                   // greater than the versions of all writes before it
  const bool in_order;                                // by the ordered index
  const std::unique_ptr<DurableTier::Cursor> cursor;  // null: not from the tier
  const std::uint64_t slot_changes;  // OwnedSlots::changes at its begin (O4 of owned_slots.h)
  IndexWalk walk{};
  ScanRange rest{};  // in_order: the part of the range in which keys are still to be found
  bool all_found = false;

  std::vector<Target> targets{};  // keys that were found, and not deleted yet
  std::vector<Write> writes{};
  std::uint64_t ticket = 0;   // ticket of the last pending delete; 0: no delete is pending
  std::uint64_t waiting = 0;  // number of pending deletes

  absl::Status Find() {
    targets.clear();
    if (in_order) return FindInOrder();
    if (cursor == nullptr) {
      FindByHash();
      return absl::OkStatus();
    }
    for (std::size_t looks = 0; looks < kMaxLooks && targets.size() < kMaxKeys; ++looks) {
      if (!cursor->Next()) {
        all_found = true;
        return cursor->status();
      }
      const DurableTier::Entry& entry = cursor->entry();
      if (!engine.core().slots.Has(entry.key)) continue;  // O2 of owned_slots.h
      targets.push_back({std::string(entry.key), entry.header.version});
    }
    return absl::OkStatus();
  }

  void FindByHash() {
    std::vector<VersionedKey> found;
    for (std::size_t i = 0; i < kMaxBuckets && targets.size() < kMaxKeys && !walk.over; ++i) {
      found.clear();
      WalkIndex(engine.core(), range, &walk, &found);
      for (VersionedKey& key : found) {
        if (key.version < versions_end) targets.push_back({std::move(key.key), key.version});
      }
    }
    all_found = walk.over;
  }

  /// Finds the keys of the range among the next kMaxKeys ones of the ordered index.
  absl::Status FindInOrder() {
    KeyBatch found;
    LookUp(&found);
    std::vector<DurableTier::WantedKey> cold;
    std::size_t skipped = 0;
    for (const Target& target : targets) {
      ++skipped;
      if (target.read == nullptr) continue;
      cold.push_back({target.key, skipped - 1});
      skipped = 0;
    }
    std::size_t next = 0;
    std::size_t bytes = 0;
    const StoreCore& core = engine.core();
    const auto take = [&](const DurableTier::Entry& entry) {
      while (targets[next].read == nullptr || targets[next].key != entry.key) ++next;
      targets[next].version = entry.header.version;
      targets[next].read->Take(entry);
      ++next;
      bytes += targets[next - 1].read->value.size();
      return bytes < kMaxBytes ? absl::OkStatus() : absl::CancelledError();
    };
    const absl::Status read = cold.empty() ? absl::OkStatus() : core.tier->ForKeys(cold, false, take);
    const bool is_cut = absl::IsCancelled(read);
    if (!read.ok() && !is_cut) return read;
    std::string last(found.empty() ? std::string_view() : found[found.size() - 1]);
    if (is_cut) {
      last = targets[next - 1].key;
      targets.erase(targets.begin() + static_cast<std::ptrdiff_t>(next), targets.end());
    }
    // Version 0: the tier has shown no entry. The key was deleted meanwhile, or has a pending write.
    std::erase_if(
        targets, [&](const Target& target) { return target.version == 0 || target.version >= versions_end; });
    all_found = found.size() < kMaxKeys && !is_cut;
    if (!all_found) rest.GoBehind(last);
    return absl::OkStatus();
  }

  /// Makes targets of the next keys, and begins the reads of those that are cold.
  void LookUp(KeyBatch* found) {
    const StoreCore& core = engine.core();
    const WriterLock lock(core.mutex);
    core.ordered->keys().First(rest.begin, rest.end, kMaxKeys, found);
    for (std::size_t i = 0; i < found->size(); ++i) {
      Target target{.key = std::string((*found)[i])};
      const std::uint64_t key_hash = HashKey(target.key);
      if (const std::optional<Index::Entry> entry = core.index.Find(target.key, key_hash)) {
        target.version = core.log.Header(entry->place).version_live >> 1;
      } else if (core.unsynced_keys.Has(target.key)) {
        continue;  // the write comes behind this deletion
      } else {
        REMORA_CHECK(core.has_tier());  // V4
        target.read = std::make_unique<ColdRead>();
        target.read->key = target.key;
        target.read->key_hash = key_hash;
        target.read->most_value = kMaxSmallValueSize;  // as for any write of a cold key
        target.read->is_for_write = true;
        core.BeginColdRead(target.read.get(), /*is_loaded=*/true);
      }
      targets.push_back(std::move(target));
    }
  }
};

RangeDeletion::RangeDeletion(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
RangeDeletion::~RangeDeletion() = default;

absl::StatusOr<bool> RangeDeletion::Step() { return Delete(/*wait=*/true); }
absl::StatusOr<bool> RangeDeletion::StepWithoutWaiting() { return Delete(/*wait=*/false); }

absl::StatusOr<bool> RangeDeletion::Delete(bool wait) {
  if (rep_->ticket != 0) {
    REMORA_RETURN_IF_ERROR(rep_->engine.CheckEnded(rep_->ticket));
    deleted_ += std::exchange(rep_->waiting, 0);
    rep_->ticket = 0;
  }
  REMORA_RETURN_IF_ERROR(rep_->engine.core().slots.CheckChanges("delete", rep_->slot_changes));
  if (rep_->targets.empty()) {
    if (rep_->all_found) return false;
    REMORA_RETURN_IF_ERROR(rep_->Find());
  }
  rep_->writes.clear();
  for (const Rep::Target& target : rep_->targets) {
    Write& write = rep_->writes.emplace_back();
    write.kind = Write::Kind::kDelete;
    write.key = target.key;
    write.condition = Condition::Version(target.version);
    write.read = target.read.get();
  }
  WritePipeline& pipeline = rep_->engine.pipeline();
  wait ? pipeline.Commit(rep_->writes) : pipeline.Submit(rep_->writes);
  std::size_t done = 0;
  absl::Status failed;
  for (const Write& write : rep_->writes) {
    if (absl::IsAborted(write.status)) {  // all later writes are Aborted, too
      failed = write.status;
      break;
    }
    ++done;
    if (write.ticket != 0) {
      ++rep_->waiting;
      rep_->ticket = write.ticket;
      continue;
    }
    if (write.status.ok()) ++deleted_;
    // The key was deleted, has expired, or was written again meanwhile: the deletion leaves it alone.
    const bool is_no_longer_it = absl::IsNotFound(write.status) || absl::IsFailedPrecondition(write.status);
    if (!write.status.ok() && !is_no_longer_it) failed = write.status;
  }
  rep_->targets.erase(rep_->targets.begin(), rep_->targets.begin() + static_cast<std::ptrdiff_t>(done));
  REMORA_RETURN_IF_ERROR(failed);
  return rep_->ticket != 0 || !rep_->all_found;
}

// --- Methods of Store -----------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<RangeDeletion>> Store::BeginDeleteRange(const RangeOptions& options) {
  return RangeDeletion::Begin(*engine_, options, /*may_wait=*/true);
}

absl::StatusOr<std::unique_ptr<RangeDeletion>> ServerStore::BeginDeleteRangeWithoutWaiting(
    const RangeOptions& options) {
  return RangeDeletion::Begin(*engine_, options, /*may_wait=*/false);
}

absl::StatusOr<std::unique_ptr<RangeDeletion>> RangeDeletion::Begin(StoreEngine& engine,
                                                                    const RangeOptions& options,
                                                                    bool may_wait) {
  ScanRange range;
  if (const char* why = ResolveRange(options, &range)) return absl::InvalidArgumentError(why);
  if (engine.core().is_following()) {
    return absl::FailedPreconditionError("delete: the store follows a primary; delete the keys there");
  }
  const std::uint64_t slot_changes = engine.core().slots.changes();
  REMORA_RETURN_IF_ERROR(engine.core().slots.CheckSettled("delete"));
  const bool in_order = engine.has_order();
  std::unique_ptr<DurableTier::Cursor> cursor;
  if (engine.core().has_tier() && !in_order) {
    REMORA_ASSIGN_OR_RETURN(cursor, engine.NewCursor(range, may_wait));
  }
  REMORA_RETURN_IF_ERROR(engine.CheckSync());
  const std::uint64_t versions_end = engine.VersionsEnd();
  return std::unique_ptr<RangeDeletion>(new RangeDeletion(std::unique_ptr<Rep>(
      new Rep{engine, range, versions_end, in_order, std::move(cursor), slot_changes, {}, range})));
}

absl::StatusOr<std::uint64_t> Store::DeleteRange(const RangeOptions& options) {
  ScanRange range;
  if (const char* why = ResolveDelete(options, &range)) return absl::InvalidArgumentError(why);
  return DeleteWithRetry(options);
}

absl::StatusOr<std::uint64_t> Store::DeleteAll() { return DeleteWithRetry({}); }

absl::StatusOr<std::uint64_t> Store::DeleteWithRetry(const RangeOptions& range) {
  const auto give_up = std::chrono::steady_clock::now() + kBeginPatience;
  absl::StatusOr<std::unique_ptr<RangeDeletion>> begun = BeginDeleteRange(range);
  while (absl::IsAborted(begun.status()) && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    begun = BeginDeleteRange(range);
  }
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<RangeDeletion> deletion, std::move(begun));
  for (;;) {
    const absl::StatusOr<bool> more = deletion->Step();
    if (absl::IsAborted(more.status())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    REMORA_RETURN_IF_ERROR(more.status());
    if (!*more) return deletion->deleted();
  }
}

}  // namespace remora
