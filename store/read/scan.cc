// Scans and counts. A store with an ordered index has them from there (ordered_scan.h), unless it still
// loads. Without that index, those of a store that is only in memory walk over the hash index. All others
// show the contents of the durable tier, which are exactly the published writes.
//
// Why the tier has exactly these. All writes go through WritePipeline::CommitGroup, or the fast path for one
// put (WriteFastPath). Both hold core_.mutex from before the tier's write until they have published the
// group. Pending writes are the exception: before it makes a cursor, the store syncs and publishes them under
// core_.mutex. The expirers remove records from memory under core_.mutex, too. Consider a thread that holds
// core_.mutex, has no pending writes left and has flushed the removals. It finds exactly the published writes
// in the tier: of each group, and so of each batch, all or none.
//
// A cursor that is made then shows this state for ever, because RocksDB never changes the state that an
// iterator began with. It does not matter which records are in memory: evictions, growth, cleaning and a load
// change nothing in the tier.
#include "store/scan.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/engine/store_engine.h"
#include "store/format/types/expiry.h"
#include "store/format/types/scan_range.h"
#include "store/read/index_walk.h"
#include "store/read/ordered_scan.h"
#include "store/server_store.h"

namespace remora {
namespace {

absl::Status NoOrder() {
  return absl::FailedPreconditionError(
      "scan: the store keeps no order of its keys; scan it in any order (any_order), or open it with an "
      "ordered index (kvserver --ordered=memory) or as logged (kvserver --durability=logged)");
}

absl::Status NoHashes() {
  return absl::FailedPreconditionError(
      "scan: the resume token belongs to a scan in any order of a store in memory, and this store has a "
      "disk; start a new scan");
}

// A scan keeps no more memory than this for the values that follow a large one.
constexpr std::size_t kMaxKeptValue = kMaxSmallValueSize;

}  // namespace

struct StoreScan::Rep {
  StoreEngine& engine;
  const ScanRange range;
  const bool keys_only;
  std::uint64_t left;                                 // entries that the limit still allows
  const std::unique_ptr<DurableTier::Cursor> cursor;  // null: not from the tier
  const std::unique_ptr<OrderedScan> ordered;         // null: not by the ordered index
  const std::uint64_t slot_changes;                   // OwnedSlots::changes at its moment (O4)
  absl::Status moved{};                               // OK, or the error of O4

  // By hash, if both are null: the keys of one bucket; the scan has not shown those from index `next` on.
  IndexWalk walk{};
  std::vector<VersionedKey> keys{};
  std::size_t next = 0;
  std::size_t steps = 0;  // steps left without an entry: one for each record that WalkIndex looked at
  std::string value{};
  const absl::Status ok{};

  bool IsOver(std::uint64_t expiry_ms) const {
    // Reads the clock only for a record with an expiry.
    return expiry_ms != 0 && HasExpired(expiry_ms, engine.core().clock.UnixMillis());
  }
};

StoreScan::StoreScan(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
StoreScan::~StoreScan() = default;

bool StoreScan::by_hash() const { return rep_->range.by_hash; }
const absl::Status& StoreScan::status() const {
  if (!rep_->moved.ok()) return rep_->moved;
  if (rep_->ordered != nullptr) return rep_->ordered->status();
  return by_hash() ? rep_->ok : rep_->cursor->status();
}

bool StoreScan::Next() {
  Step step = Step::kNotYet;
  while (step == Step::kNotYet) step = Advance();
  return step == Step::kEntry;
}

StoreScan::Step StoreScan::Advance() {
  if (rep_->left == 0 || !rep_->moved.ok()) return Step::kEnd;
  rep_->moved = rep_->engine.core().slots.CheckChanges("scan", rep_->slot_changes);
  if (!rep_->moved.ok()) return Step::kEnd;
  if (rep_->ordered != nullptr) return AdvanceByIndex();
  if (by_hash()) return AdvanceByHash();
  if (!rep_->cursor->Next()) return Step::kEnd;
  const DurableTier::Entry& entry = rep_->cursor->entry();
  expiry_ms_ = entry.header.expiry_ms;
  if (rep_->IsOver(expiry_ms_) || !rep_->engine.core().slots.Has(entry.key)) return Step::kNotYet;  // O2
  --rep_->left;
  key_ = entry.key;
  version_ = entry.header.version;
  value_ = rep_->keys_only ? std::string_view() : entry.value;
  return Step::kEntry;
}

StoreScan::Step StoreScan::AdvanceByIndex() {
  if (!rep_->ordered->Advance(rep_->left)) return Step::kEnd;
  const OrderedScan::Entry* const entry = rep_->ordered->entry();
  if (entry == nullptr || rep_->IsOver(entry->expiry_ms)) return Step::kNotYet;
  --rep_->left;
  key_ = entry->key;
  value_ = entry->value;
  version_ = entry->version;
  expiry_ms_ = entry->expiry_ms;
  return Step::kEntry;
}

std::optional<std::uint64_t> StoreScan::CountAtOnce() {
  if (rep_->ordered == nullptr) return std::nullopt;
  const WriterLock lock(rep_->engine.core().mutex);
  // A scan shows no expired record.
  if (rep_->engine.MayHaveExpired()) return std::nullopt;
  const std::optional<std::uint64_t> count = rep_->ordered->CountAtOnce();
  return count ? std::optional(std::min(*count, rep_->left)) : std::nullopt;
}

StoreScan::Step StoreScan::AdvanceByHash() {
  Rep& rep = *rep_;
  if (rep.steps > 0) {
    --rep.steps;
    return Step::kNotYet;
  }
  if (rep.next == rep.keys.size()) {
    if (rep.walk.over) return Step::kEnd;
    rep.keys.clear();
    rep.next = 0;
    rep.steps = WalkIndex(rep.engine.core(), rep.range, &rep.walk, &rep.keys);
    return Step::kNotYet;
  }
  std::string& key = rep.keys[rep.next++].key;
  if (rep.value.capacity() > kMaxKeptValue) rep.value = {};
  const std::optional<RecordHeader> header =
      CopyRecord(rep.engine.core(), key, rep.keys_only ? nullptr : &rep.value);
  if (!header || rep.IsOver(header->expiry_ms)) return Step::kNotYet;
  --rep.left;
  key_ = std::move(key);
  value_ = rep.value;
  version_ = header->version_live >> 1;
  expiry_ms_ = header->expiry_ms;
  return Step::kEntry;
}

std::string StoreScan::resume_token() const {
  ScanRange rest = rep_->range;
  if (!key_.empty()) rest.GoBehind(key_);
  return MakeScanToken(rest);
}

absl::StatusOr<std::unique_ptr<StoreScan>> Store::Scan(const ScanOptions& options) {
  ScanRange range;
  if (const char* why = ResolveScan(options, &range)) return absl::InvalidArgumentError(why);
  return StoreScan::Begin(*engine_, std::move(range), options.limit, options.keys_only, /*may_wait=*/true);
}

absl::StatusOr<std::unique_ptr<StoreScan>> ServerStore::Scan(ScanRange range, std::uint64_t limit,
                                                             bool keys_only) {
  return StoreScan::Begin(*engine_, std::move(range), limit, keys_only, /*may_wait=*/false);
}

absl::StatusOr<std::unique_ptr<StoreScan>> StoreScan::Begin(StoreEngine& engine, ScanRange range,
                                                            std::uint64_t limit, bool keys_only,
                                                            bool may_wait) {
  std::unique_ptr<DurableTier::Cursor> cursor;
  std::unique_ptr<OrderedScan> ordered;
  // Before its moment: a change in between ends it.
  const std::uint64_t slot_changes = engine.core().slots.changes();
  REMORA_RETURN_IF_ERROR(engine.core().slots.CheckSettled("scan"));
  if (engine.core().has_tier() && !range.after.empty()) return NoHashes();
  if (engine.has_order() && range.after.empty()) {
    range.by_hash = false;
    REMORA_ASSIGN_OR_RETURN(ordered, engine.NewOrderedScan(range, keys_only));
  } else if (engine.core().has_tier()) {
    range.by_hash = false;
    REMORA_ASSIGN_OR_RETURN(cursor, engine.NewCursor(range, may_wait));
  } else if (!range.by_hash) {
    return NoOrder();
  }
  const std::uint64_t left = limit != 0 ? limit : ~std::uint64_t{0};
  const std::uint64_t place = range.after.empty() ? 0 : HashOrder(range.after);
  return std::unique_ptr<StoreScan>(new StoreScan(std::unique_ptr<Rep>(new Rep{engine,
                                                                               std::move(range),
                                                                               keys_only,
                                                                               left,
                                                                               std::move(cursor),
                                                                               std::move(ordered),
                                                                               slot_changes,
                                                                               {},
                                                                               {.place = place}})));
}

// --- Backups, and counts --------------------------------------------------------------------------------

// Each acknowledged write is in the tier by now, because a write is acknowledged after it was written there.
absl::StatusOr<BackupInfo> Store::Backup(const std::string& dir, std::uint32_t keep,
                                         std::stop_token stop) const {
  if (!engine_->core().has_tier()) {
    return absl::FailedPreconditionError(
        "backup: a store that is only in memory has nothing to back up; open it with Durability::kLogged "
        "(kvserver --durability=logged), or export it");
  }
  return engine_->replication().Backup(dir, keep, std::move(stop));
}

absl::StatusOr<std::uint64_t> Store::Count() {
  // During a load, the counter has only the keys that are loaded.
  if (loading()) return Count(RangeOptions{});
  return engine_->core().metrics.Read(Metric::kKeys);
}

absl::StatusOr<std::uint64_t> Store::Count(const RangeOptions& range) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<StoreScan> scan, Scan({.prefix = range.prefix,
                                                                       .begin = range.begin,
                                                                       .end = range.end,
                                                                       .any_order = true,
                                                                       .keys_only = true}));
  if (const std::optional<std::uint64_t> all = scan->CountAtOnce()) return *all;
  std::uint64_t count = 0;
  while (scan->Next()) ++count;
  REMORA_RETURN_IF_ERROR(scan->status());
  return count;
}

}  // namespace remora
