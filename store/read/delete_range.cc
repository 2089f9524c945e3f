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
#include "store/format/types/expiry.h"
#include "store/format/types/scan_range.h"
#include "store/read/index_walk.h"
#include "store/server_store.h"
#include "store/store.h"
#include "store/write/write.h"
#include "store/write/write_pipeline.h"

namespace remora {
namespace {

// Bounds of one step, which takes about half a millisecond.
constexpr std::size_t kMaxKeys = 256;
constexpr std::size_t kMaxLooks = 1024;   // entries of the durable tier
constexpr std::size_t kMaxBuckets = 256;  // buckets of the index

// Space for pending writes comes two grace periods after memory was retired; or it never comes.
constexpr std::chrono::seconds kBeginPatience{5};

}  // namespace

// The keys come from the durable tier, as of one moment, or, in a store without one, from the ordered index
// or the hash index.
struct RangeDeletion::Rep {
  StoreEngine& engine;
  const ScanRange range;
  const std::uint64_t versions_end;                   // greater than the versions of all writes before it
  const std::unique_ptr<DurableTier::Cursor> cursor;  // null: there is no tier
  IndexWalk walk;
  ScanRange rest;  // of the ordered index: the part of the range in which keys are still to be found
  bool all_found = false;

  std::vector<VersionedKey> keys;  // keys that were found, and not deleted yet
  std::vector<Write> writes;
  std::uint64_t ticket = 0;   // ticket of the last pending delete; 0: no delete is pending
  std::uint64_t waiting = 0;  // number of pending deletes

  absl::Status Find() {
    keys.clear();
    if (engine.core().ordered != nullptr) {
      FindInOrder();
      return absl::OkStatus();
    }
    if (cursor == nullptr) {
      const auto is_later = [&](const auto& key) { return key.version >= versions_end; };
      for (std::size_t i = 0; i < kMaxBuckets && keys.size() < kMaxKeys && !walk.over; ++i) {
        const auto before = static_cast<std::ptrdiff_t>(keys.size());
        WalkIndex(engine.core(), range, &walk, &keys);
        keys.erase(std::remove_if(keys.begin() + before, keys.end(), is_later), keys.end());
      }
      all_found = walk.over;
      return absl::OkStatus();
    }
    for (std::size_t looks = 0; looks < kMaxLooks && keys.size() < kMaxKeys; ++looks) {
      if (!cursor->Next()) {
        all_found = true;
        return cursor->status();
      }
      const DurableTier::Entry& entry = cursor->entry();
      keys.push_back({std::string(entry.key), entry.header.version});
    }
    return absl::OkStatus();
  }

  /// Finds the keys of the range among the next kMaxKeys ones of the ordered index.
  void FindInOrder() {
    const StoreCore& core = engine.core();
    const WriterLock lock(core.mutex);
    KeyBatch found;
    core.ordered->keys().First(rest.begin, rest.end, kMaxKeys, &found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::optional<Index::Entry> entry = core.index.Find(found[i], HashKey(found[i]));
      REMORA_CHECK(entry.has_value());  // V4
      const std::uint64_t version = core.log.Header(entry->place).version_live >> 1;
      if (version < versions_end) keys.push_back({std::string(found[i]), version});
    }
    all_found = found.size() < kMaxKeys;
    if (!all_found) rest.GoBehind(found[found.size() - 1]);
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
  if (rep_->keys.empty()) {
    if (rep_->all_found) return false;
    REMORA_RETURN_IF_ERROR(rep_->Find());
  }
  rep_->writes.clear();
  for (const VersionedKey& key : rep_->keys) {
    Write& write = rep_->writes.emplace_back();
    write.kind = Write::Kind::kDelete;
    write.key = key.key;
    write.condition = Condition::Version(key.version);
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
  rep_->keys.erase(rep_->keys.begin(), rep_->keys.begin() + static_cast<std::ptrdiff_t>(done));
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
  std::unique_ptr<DurableTier::Cursor> cursor;
  if (engine.core().has_tier()) {
    REMORA_ASSIGN_OR_RETURN(cursor, engine.NewCursor(range, may_wait));
  }
  const std::uint64_t versions_end = engine.VersionsEnd();
  return std::unique_ptr<RangeDeletion>(new RangeDeletion(std::unique_ptr<Rep>(
      new Rep{engine, range, versions_end, std::move(cursor), {}, range, false, {}, {}, 0, 0})));
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
