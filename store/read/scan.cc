// Scans and counts: what the durable tier holds, which is what is published.
//
// Why that is so. All that is written goes through CommitSome, which holds core_.mutex from before the tier's
// write until all of the group is published, but for what waits for the disk, and for that a cursor has the
// disk asked, under core_.mutex; all that is removed because it has expired is taken out of
// memory under core_.mutex, too. So whoever holds core_.mutex, and has flushed the removals, finds in the
// tier exactly the writes that are published: of each group, and so of each batch, all or nothing. A cursor
// that is made then shows that for ever, since RocksDB never changes what an iterator has seen begin. It does
// not matter what of it is in memory: an eviction moves nothing in the tier, and neither do growth, cleaning
// and a load.
//
// A store without a tier has its keys in the index alone, and no past of them. There a scan, in any order,
// walks over the index as hash_order.h says. It takes the keys of one bucket at a time, and copies the record
// of each when it comes to it: all that a bucket leads to may be a gigabyte.
#include "store/scan.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"
#include "store/format/types/expiry.h"
#include "store/format/types/scan_range.h"

namespace remora {
namespace {

absl::Status NoOrder() {
  return absl::FailedPreconditionError(
      "a store that is only in memory keeps no order of its keys: scan it in any order (any_order), or open "
      "it as logged (kvserver --durability=logged)");
}

absl::Status NoHashes() {
  return absl::FailedPreconditionError(
      "this token is of a scan in any order, of a store that is only in memory, and this store has a disk: "
      "begin anew");
}

// A large value's memory is not kept for the small ones behind it.
constexpr std::size_t kMaxKeptValue = kMaxSmallValueSize;

}  // namespace

struct StoreScan::Rep {
  Store::Impl& impl;
  const ScanRange range;
  const bool keys_only;
  std::uint64_t left;                                 // of the limit
  const std::unique_ptr<DurableTier::Cursor> cursor;  // null: by hash

  // By hash: the keys of one bucket, from the `next` on those that it has not come to.
  Store::Impl::IndexWalk walk{};
  std::vector<Store::Impl::VersionedKey> keys{};
  std::size_t next = 0;
  std::size_t steps = 0;  // that go by for what was looked at in the bucket
  std::string value{};
  const absl::Status ok{};

  bool IsOver(std::uint64_t expiry_ms) const {
    // Looks at the clock only for a record that expires at all.
    return expiry_ms != 0 && HasExpired(expiry_ms, impl.core().clock.UnixMillis());
  }
};

StoreScan::StoreScan(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
StoreScan::~StoreScan() = default;

bool StoreScan::by_hash() const { return rep_->range.by_hash; }
const absl::Status& StoreScan::status() const { return by_hash() ? rep_->ok : rep_->cursor->status(); }

bool StoreScan::Next() {
  Step step = Step::kNotYet;
  while (step == Step::kNotYet) step = Advance();
  return step == Step::kEntry;
}

StoreScan::Step StoreScan::Advance() {
  if (rep_->left == 0) return Step::kEnd;
  if (by_hash()) return AdvanceByHash();
  if (!rep_->cursor->Next()) return Step::kEnd;
  const DurableTier::Entry& entry = rep_->cursor->entry();
  expiry_ms_ = entry.header.expiry_ms;
  if (rep_->IsOver(expiry_ms_)) return Step::kNotYet;
  --rep_->left;
  key_ = entry.key;
  version_ = entry.header.version;
  value_ = rep_->keys_only ? std::string_view() : entry.value;
  return Step::kEntry;
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
    rep.steps = rep.impl.WalkIndex(rep.range, &rep.walk, &rep.keys);
    return Step::kNotYet;
  }
  std::string& key = rep.keys[rep.next++].key;
  if (rep.value.capacity() > kMaxKeptValue) rep.value = {};
  const std::optional<RecordHeader> header = rep.impl.CopyRecord(key, rep.keys_only ? nullptr : &rep.value);
  if (!header || rep.IsOver(header->expiry_ms)) return Step::kNotYet;
  --rep.left;
  key_ = std::move(key);
  value_ = rep.value;
  version_ = header->version_live >> 1;
  expiry_ms_ = header->expiry_ms;
  return Step::kEntry;
}

std::string StoreScan::token() const {
  ScanRange rest = rep_->range;
  if (!key_.empty()) rest.GoBehind(key_);
  return MakeScanToken(rest);
}

absl::StatusOr<std::unique_ptr<DurableTier::Cursor>> Store::Impl::NewCursor(const ScanRange& range) {
  // Without the lock, a write might be shown that no reader sees yet; and what was removed, should the clock
  // ever say less than it did, without a flush.
  std::unique_lock lock(core_.mutex);
  const absl::Status published = PublishAll();
  sweeper_.Flush();
  std::unique_ptr<DurableTier::Cursor> cursor;
  if (published.ok()) cursor = core_.tier->NewCursor(range);
  TellAll(lock);
  REMORA_RETURN_IF_ERROR(published);
  return cursor;
}

absl::StatusOr<std::unique_ptr<StoreScan>> Store::Scan(const ScanOptions& options) {
  ScanRange range;
  if (const char* why = ResolveScan(options, &range)) return absl::InvalidArgumentError(why);
  return Scan(std::move(range), options.limit, options.keys_only);
}

absl::StatusOr<std::unique_ptr<StoreScan>> Store::Scan(ScanRange range, std::uint64_t limit, bool keys_only) {
  std::unique_ptr<DurableTier::Cursor> cursor;
  if (impl_->core().has_tier()) {
    if (!range.after.empty()) return NoHashes();
    range.by_hash = false;
    REMORA_ASSIGN_OR_RETURN(cursor, impl_->NewCursor(range));
  } else if (!range.by_hash) {
    return NoOrder();
  }
  const std::uint64_t left = limit != 0 ? limit : ~std::uint64_t{0};
  const std::uint64_t place = range.after.empty() ? 0 : HashOrder(range.after);
  return std::unique_ptr<StoreScan>(new StoreScan(std::unique_ptr<StoreScan::Rep>(
      new StoreScan::Rep{*impl_, std::move(range), keys_only, left, std::move(cursor), {.place = place}})));
}

// --- Without a durable tier -----------------------------------------------------------------------------

std::size_t Store::Impl::WalkIndex(const ScanRange& range, IndexWalk* walk, std::vector<VersionedKey>* keys) {
  struct Found {
    std::uint64_t order;
    std::string_view key;
    std::uint64_t version;
    auto operator<=>(const Found&) const = default;  // NOLINT: clang-tidy 14 takes it for a null pointer
  };
  std::vector<Found> found;
  std::size_t looks = 0;
  const std::uint64_t after_order = range.after.empty() ? 0 : HashOrder(range.after);
  const std::lock_guard lock(core_.mutex);
  const Home home = core_.index.HomeOf(ReverseBits(walk->place));
  BucketRef ref{.overflow = false, .number = home.bucket};
  for (Bucket bucket;; ref = {.overflow = true, .number = ControlLink(bucket.control)}) {
    core_.index.Copy(ref, &bucket);
    for (const std::uint64_t word : bucket.slots) {
      if (word == 0 || SlotIsCold(word)) continue;
      ++looks;
      // A slot that rests names a record that is dead, or one that another slot names, too: of this bucket,
      // or of the other half of it.
      const Place place = Place::Of(DecodeSlot(word));
      if (!core_.log.IsLive(place)) continue;
      const std::string_view key = core_.log.Key(place);
      const std::uint64_t key_hash = HashKey(key);
      if (!Belongs(key_hash, home) || !range.Contains(key)) continue;
      const std::uint64_t order = ReverseBits(key_hash);
      // The scan that it goes on with may have seen smaller buckets.
      if (std::tie(order, key) <= std::tuple(after_order, std::string_view(range.after))) continue;
      found.push_back({order, key, core_.log.Header(place).version_live >> 1});
    }
    if (ControlLink(bucket.control) == 0) break;
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const Found& record : found) keys->push_back({std::string(record.key), record.version});
  walk->place = ReverseBits(home.bucket) + (std::uint64_t{1} << (64 - home.depth));
  walk->over = walk->place == 0;
  return looks;
}

std::optional<RecordHeader> Store::Impl::CopyRecord(std::string_view key, std::string* value) {
  const std::lock_guard lock(core_.mutex);
  const std::optional<Index::Entry> entry = core_.index.Find(key, HashKey(key));
  if (!entry) return std::nullopt;
  const RecordHeader header = core_.log.Header(entry->place);
  if (value != nullptr) {
    value->assign(reinterpret_cast<const char*>(core_.log.Body(entry->place)) + header.key_size,
                  header.value_size);
  }
  return header;
}

// --- Backups, and counts --------------------------------------------------------------------------------

// All that was acknowledged is in the tier by now, whoever has seen it.
absl::StatusOr<BackupInfo> Store::Backup(const std::string& dir, std::uint32_t keep,
                                         std::stop_token stop) const {
  if (!impl_->core().has_tier()) {
    return absl::FailedPreconditionError(
        "a store that is only in memory has nothing to back up: open it with Durability::kLogged "
        "(kvserver --durability=logged), or export it");
  }
  const std::uint64_t version = impl_->versions_end() - 1;
  return impl_->core().tier->Backup(dir, {version, keep, std::move(stop)});
}

absl::StatusOr<std::uint64_t> Store::Count() {
  // The counter is of the keys that are loaded.
  if (loading()) return Count(RangeOptions{});
  return impl_->core().metrics.Read(Counter::kKeys);
}

absl::StatusOr<std::uint64_t> Store::Count(const RangeOptions& range) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<StoreScan> scan, Scan({.prefix = range.prefix,
                                                                       .begin = range.begin,
                                                                       .end = range.end,
                                                                       .any_order = true,
                                                                       .keys_only = true}));
  std::uint64_t count = 0;
  while (scan->Next()) ++count;
  REMORA_RETURN_IF_ERROR(scan->status());
  return count;
}

}  // namespace remora
