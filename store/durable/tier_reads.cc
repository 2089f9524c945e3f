// The reads of DurableTier: by key, in the order of keys, as of one moment, and estimates of size.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/snapshot.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/durable/files.h"
#include "store/durable/kept_iterator.h"
#include "store/durable/range_split.h"
#include "store/durable/rocksdb_options.h"
#include "store/durable/tier.h"
#include "store/durable/tier_impl.h"
#include "store/durable/tier_log/log_change_feed.h"
#include "store/durable/tier_log/scan_overlay.h"
#include "store/durable/tier_log/tier_log.h"

namespace remora {
namespace {

std::optional<Lsn> AsLsn(std::optional<std::uint64_t> sequence) {
  return sequence ? std::optional(Lsn{*sequence}) : std::nullopt;
}

rocksdb::ReadOptions ReadVerified() {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  return options;
}

/// Iterator that finds keys, one behind the other.
class KeyFinder {
 public:
  KeyFinder(rocksdb::Iterator* iterator, bool reverse) : iterator_(iterator), reverse_(reverse) {}

  /// Moves to the key. Returns false if it does not exist, or if status() is not OK. REQUIRES: the key is
  /// behind that of the last call.
  bool Find(const DurableTier::WantedKey& wanted) {
    if (!has_begun_) return Search(wanted.key);
    std::size_t steps = wanted.skipped < kMaxSteps ? kMaxSteps : 0;
    std::size_t bytes = 0;  // of values that it has passed
    while (iterator_->Valid()) {
      const int order = ViewOf(iterator_->key()).compare(wanted.key) * (reverse_ ? -1 : 1);
      if (order >= 0) return order == 0;
      if (steps == 0 || bytes > kMaxBytes) return Search(wanted.key);
      reverse_ ? iterator_->Prev() : iterator_->Next();
      --steps;
      bytes += NoteValue();
    }
    return false;
  }
  std::string_view value() const { return ViewOf(iterator_->value()); }
  rocksdb::Status status() const { return iterator_->status(); }
  /// Returns whether it has met none but small values.
  bool is_small() const { return largest_ <= kMaxBytes; }

 private:
  // A search takes as long as some ten steps between small values (decision 0094). A step between large ones
  // takes the time to read the value, and a search saves that of the values between.
  static constexpr std::size_t kMaxSteps = 10;
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 10;

  bool Search(std::string_view key) {
    has_begun_ = true;
    reverse_ ? iterator_->SeekForPrev(ToSlice(key)) : iterator_->Seek(ToSlice(key));
    NoteValue();
    return iterator_->Valid() && ViewOf(iterator_->key()) == key;
  }
  std::size_t NoteValue() {
    const std::size_t size = iterator_->Valid() ? iterator_->value().size() : 0;
    largest_ = std::max(largest_, size);
    return size;
  }

  rocksdb::Iterator* const iterator_;
  const bool reverse_;
  bool has_begun_ = false;
  std::size_t largest_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<ClientCompletions>> DurableTier::Clients() const {
  std::vector<ClientCompletions> clients;
  const std::unique_ptr<rocksdb::Iterator> iterator = impl_->NewIterator(ReadThrough(), impl_->meta());
  for (iterator->Seek(ToSlice(kClientPrefix)); iterator->Valid(); iterator->Next()) {
    std::string_view key = ViewOf(iterator->key());
    const std::string_view value = ViewOf(iterator->value());
    if (!key.starts_with(kClientPrefix)) break;
    key.remove_prefix(kClientPrefix.size());
    if (!ReadCompletion(key, value, &clients)) {
      return impl_->Damaged("what it remembers of a client has the wrong size");
    }
  }
  REMORA_RETURN_IF_ERROR(impl_->Translate(iterator->status()));
  return clients;
}

absl::StatusOr<bool> DurableTier::HasMarkOfSlots() const {
  REMORA_RETURN_IF_ERROR(ApplyLog());
  for (const std::string_view mark : {kSlotsKey, kCopiedKey}) {
    rocksdb::PinnableSlice value;
    const rocksdb::Status status = impl_->Get(ReadVerified(), impl_->meta(), ToSlice(mark), &value);
    if (status.ok()) return true;
    if (!status.IsNotFound()) return impl_->Translate(status);
  }
  return false;
}

absl::Status DurableTier::Get(std::string_view key, Take take) const {
  if (impl_->log_ != nullptr && impl_->log_->IsDeleted(key)) return absl::NotFoundError("no such key");
  rocksdb::PinnableSlice value;  // pins the block in the cache instead of copying the value
  const rocksdb::Status status = impl_->Get(ReadVerified(), impl_->data(), ToSlice(key), &value);
  return impl_->TakeGot(status, key, value, take);
}

std::optional<absl::Status> DurableTier::GetCached(std::string_view key, Take take) const {
  if (impl_->log_ != nullptr && impl_->log_->IsDeleted(key)) return absl::NotFoundError("no such key");
  rocksdb::PinnableSlice value;
  rocksdb::Status status;
  {
    const OnlyCachedReads only_cached;
    status = impl_->Get(ReadVerified(), impl_->data(), ToSlice(key), &value);
  }
  if (status.IsTimedOut()) return std::nullopt;
  return impl_->TakeGot(status, key, value, take);
}

absl::Status DurableTier::ForEach(Take take) const { return impl_->ReadAll(ReadThrough(), "", take); }

absl::Status DurableTier::ForEachFrom(std::string_view begin, Take take) const {
  const TierLog* const log = impl_->log_.get();
  return impl_->ReadAll(ReadOnce(), begin, [&](const Entry& entry) {
    return log != nullptr && log->IsDeleted(entry.key) ? absl::OkStatus() : take(entry);
  });
}

absl::Status DurableTier::ForKeys(std::span<const WantedKey> keys, bool reverse, Take take) const {
  if (keys.empty()) return absl::OkStatus();
  const TierLog* const log = impl_->log_.get();
  KeptIterator::Taken taken = impl_->kept_.Take();
  if (taken.iterator == nullptr) taken.iterator = impl_->NewIterator(ReadOnce(), impl_->data());
  KeyFinder finder(taken.iterator.get(), reverse);
  for (const WantedKey& wanted : keys) {
    const bool is_there = finder.Find(wanted);
    REMORA_RETURN_IF_ERROR(impl_->Translate(finder.status()));
    if (!is_there || (log != nullptr && log->IsDeleted(wanted.key))) continue;
    REMORA_ASSIGN_OR_RETURN(const Entry entry, impl_->Parse(wanted.key, finder.value()));
    REMORA_RETURN_IF_ERROR(take(entry));
  }
  if (finder.is_small()) impl_->kept_.Keep(std::move(taken));
  return absl::OkStatus();
}

// --- Cursors --------------------------------------------------------------------------------------------

struct DurableTier::Cursor::Rep {
  Rep(const Impl& tier, const ScanRange& keys, TierLog::View seen)
      : impl(tier), range(keys), begin(ToSlice(range.begin)), end(ToSlice(range.end)), view(std::move(seen)) {
    rocksdb::ReadOptions options = ReadOnce();
    options.snapshot = view.snapshot.get();
    if (!range.begin.empty()) options.iterate_lower_bound = &begin;
    if (range.has_end()) options.iterate_upper_bound = &end;
    iterator = impl.NewIterator(options, impl.data());
  }

  /// Moves RocksDB's iterator, unless its entry was not shown yet.
  void Move() {
    if (!started) {
      started = true;
      range.reverse ? iterator->SeekToLast() : iterator->SeekToFirst();
    } else if (is_shown) {
      range.reverse ? iterator->Prev() : iterator->Next();
    }
    is_shown = true;
  }

  /// Returns the next entry of the overlay, if the cursor shows it before that of the iterator, or in its
  /// place (O2 of scan_overlay.h). Else returns nullptr.
  const LogEntry* TakeOverlaid() {
    const LogEntry* const next = view.overlay == nullptr ? nullptr : view.overlay->front();
    if (next == nullptr) return nullptr;
    const bool is_entry = iterator->Valid();
    if (is_entry && view.overlay->IsBefore(ViewOf(iterator->key()), next->key)) return nullptr;
    is_shown = is_entry && ViewOf(iterator->key()) == next->key;
    view.overlay->Pop();
    return next;
  }

  const Impl& impl;
  const ScanRange range;
  const rocksdb::Slice begin;
  const rocksdb::Slice end;
  const TierLog::View view;
  std::unique_ptr<rocksdb::Iterator> iterator;
  bool started = false;
  bool is_shown = true;  // the iterator's entry
};

DurableTier::Cursor::Cursor(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
DurableTier::Cursor::~Cursor() = default;

std::unique_ptr<DurableTier::Cursor> DurableTier::NewCursor(const ScanRange& range,
                                                            std::optional<std::uint64_t> end) const {
  absl::StatusOr<TierLog::View> view = TierLog::View{};
  if (impl_->log_ != nullptr && !range.is_empty()) view = impl_->log_->OpenView(range, AsLsn(end));  // C7
  const bool is_over = range.is_empty() || !view.ok();
  std::unique_ptr<Cursor> cursor(
      new Cursor(is_over ? nullptr : std::make_unique<Cursor::Rep>(*impl_, range, *std::move(view))));
  cursor->status_ = view.status();
  return cursor;
}

bool DurableTier::PrepareCursor(bool may_wait) const {
  if (impl_->log_ == nullptr || impl_->log_->IsReadyForView()) return true;
  if (may_wait) impl_->log_->MakeReadyForView();
  return may_wait;
}

bool DurableTier::Cursor::Next() {
  while (rep_ != nullptr) {
    rep_->Move();
    if (!rep_->iterator->Valid() && !rep_->iterator->status().ok()) break;
    if (const LogEntry* const logged = rep_->TakeOverlaid()) {
      if (logged->kind == LogEntryKind::kDelete) continue;
      entry_ = {logged->key, {logged->version, logged->expiry_ms}, logged->value};
      return true;
    }
    if (!rep_->iterator->Valid()) break;
    const std::string_view key = ViewOf(rep_->iterator->key());
    const std::string_view stored = ViewOf(rep_->iterator->value());
    if (rep_->impl.TryParse(key, stored, &entry_)) return true;
    status_ = rep_->impl.WhyNoEntry(key, stored);
    rep_.reset();
    return false;
  }
  if (rep_ != nullptr) status_ = rep_->impl.Translate(rep_->iterator->status());
  rep_.reset();
  return false;
}

DurableTier::Size DurableTier::EstimateSize() const {
  Size size;
  rocksdb::TablePropertiesCollection tables;
  // A table that cannot be read makes the estimate 0. A reader that scans the table gets the error.
  if (!impl_->db_->GetPropertiesOfAllTables(impl_->data(), &tables).ok()) return size;
  for (const auto& [name, table] : tables) {
    const std::uint64_t entries = table->num_entries - table->num_deletions;
    constexpr std::uint64_t kInternal = 8;  // bytes that RocksDB adds to each key
    const std::uint64_t added = table->num_entries * kInternal + entries * sizeof(StoredHeader);
    size.keys += entries;
    size.bytes += table->raw_key_size + table->raw_value_size - added;
    size.disk_bytes += table->data_size;
  }
  return size;
}

std::vector<DurableTier::KeyRange> DurableTier::Split(std::size_t parts) const {
  REMORA_CHECK(parts > 0);
  KeyRange rest;  // the keys that are in no range yet
  rest.disk_bytes_ = EstimateSize().disk_bytes / parts;
  rocksdb::DB* db = impl_->db_.get();
  rest.snapshot_ = std::shared_ptr<const rocksdb::Snapshot>(
      db->GetSnapshot(), [db](const rocksdb::Snapshot* snapshot) { db->ReleaseSnapshot(snapshot); });
  std::vector<KeyRange> ranges;
  for (std::string& border : KeyBorders(*db, *impl_->data(), parts)) {
    KeyRange range = rest;
    range.end_ = border;
    rest.begin_ = std::move(border);
    ranges.push_back(std::move(range));
  }
  ranges.push_back(std::move(rest));
  return ranges;
}

absl::Status DurableTier::ForEachFrom(const KeyRange& range, std::string_view begin, Take take) const {
  rocksdb::ReadOptions options = ReadThrough(range.disk_bytes_);
  options.snapshot = static_cast<const rocksdb::Snapshot*>(range.snapshot_.get());
  const rocksdb::Slice end(range.end_);
  if (!range.end_.empty()) options.iterate_upper_bound = &end;
  return impl_->ReadAll(options, std::max<std::string_view>(range.begin_, begin), take);
}

}  // namespace remora
