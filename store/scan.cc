// Scans and counts: what the durable tier holds, which is what is published.
//
// Why that is so. All that is written goes through CommitSome, which holds mutex_ from before the tier's
// write until all of the group is published, but for what waits for the disk, and for that a cursor has the
// disk asked, under mutex_; all that is removed because it has expired is taken out of
// memory under mutex_, too. So whoever holds mutex_, and has flushed the removals, finds in the tier exactly
// the writes that are published: of each group, and so of each batch, all or nothing. A cursor that is made
// then shows that for ever, since RocksDB never changes what an iterator has seen begin. It does not matter
// what of it is in memory: an eviction moves nothing in the tier, and neither do growth, cleaning and a load.
#include "store/scan.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/format/expiry.h"
#include "store/format/scan_range.h"
#include "store/store_impl.h"

namespace remora {
namespace {

absl::Status NoOrder() {
  return absl::FailedPreconditionError(
      "a store that is only in memory keeps no order of its keys: open it with Durability::kLogged "
      "(kvserver --durability=logged) to scan it");
}

}  // namespace

struct StoreScan::Rep {
  const Clock& clock;
  const ScanRange range;
  const bool keys_only;
  std::uint64_t left;  // of the limit
  const std::unique_ptr<DurableTier::Cursor> cursor;
};

StoreScan::StoreScan(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
StoreScan::~StoreScan() = default;

const absl::Status& StoreScan::status() const { return rep_->cursor->status(); }

bool StoreScan::Next() {
  Step step = Step::kNotYet;
  while (step == Step::kNotYet) step = Advance();
  return step == Step::kEntry;
}

StoreScan::Step StoreScan::Advance() {
  if (rep_->left == 0 || !rep_->cursor->Next()) return Step::kEnd;
  const DurableTier::Entry& entry = rep_->cursor->entry();
  expiry_ms_ = entry.header.expiry_ms;
  // Looks at the clock only for a record that expires at all.
  if (expiry_ms_ != 0 && HasExpired(expiry_ms_, rep_->clock.UnixMillis())) return Step::kNotYet;
  --rep_->left;
  key_ = entry.key;
  version_ = entry.header.version;
  value_ = rep_->keys_only ? std::string_view() : entry.value;
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
  std::unique_lock lock(mutex_);
  const absl::Status published = PublishAll();
  sweeper_.Flush();
  std::unique_ptr<DurableTier::Cursor> cursor;
  if (published.ok()) cursor = tier_->NewCursor(range);
  TellAll(lock);
  REMORA_RETURN_IF_ERROR(published);
  return cursor;
}

absl::StatusOr<std::unique_ptr<StoreScan>> Store::Scan(const ScanOptions& options) {
  ScanRange range;
  if (const char* why = ResolveScan(options, &range)) return absl::InvalidArgumentError(why);
  if (!impl_->has_tier()) return NoOrder();
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<DurableTier::Cursor> cursor, impl_->NewCursor(range));
  const std::uint64_t left = options.limit != 0 ? options.limit : ~std::uint64_t{0};
  return std::unique_ptr<StoreScan>(new StoreScan(std::unique_ptr<StoreScan::Rep>(
      new StoreScan::Rep{impl_->clock(), std::move(range), options.keys_only, left, std::move(cursor)})));
}

// All that was acknowledged is in the tier by now, whoever has seen it.
absl::StatusOr<BackupInfo> Store::Backup(const std::string& dir, std::uint32_t keep,
                                         std::stop_token stop) const {
  if (!impl_->has_tier()) {
    return absl::FailedPreconditionError(
        "a store that is only in memory has nothing to back up: open it with Durability::kLogged "
        "(kvserver --durability=logged), or export it");
  }
  const std::uint64_t version = impl_->versions_end() - 1;
  return impl_->tier().Backup(dir, {version, keep, std::move(stop)});
}

std::uint64_t Store::Count() const { return impl_->Read(Counter::kKeys); }

absl::StatusOr<std::uint64_t> Store::Count(const RangeOptions& range) {
  REMORA_ASSIGN_OR_RETURN(
      const std::unique_ptr<StoreScan> scan,
      Scan({.prefix = range.prefix, .begin = range.begin, .end = range.end, .keys_only = true}));
  std::uint64_t count = 0;
  while (scan->Next()) ++count;
  REMORA_RETURN_IF_ERROR(scan->status());
  return count;
}

}  // namespace remora
