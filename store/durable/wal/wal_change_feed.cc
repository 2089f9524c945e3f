#include "store/durable/wal/wal_change_feed.h"

#include <rocksdb/db.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "store/base/status_macros.h"
#include "store/durable/status.h"

namespace remora {
namespace {

constexpr char kOpeningsKey[] = "openings";
constexpr std::uint32_t kDataFamily = 0;  // RocksDB's "default"

std::string_view TextOf(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

/// Collects the changes of keys in a group of writes. It counts all writes, since each has a sequence.
class Collector final : public rocksdb::WriteBatch::Handler {
 public:
  Collector(std::uint64_t sequence, std::vector<Change>* changes) : sequence_(sequence), changes_(*changes) {}

  rocksdb::Status PutCF(std::uint32_t family, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    const std::uint64_t sequence = sequence_++;
    if (family != kDataFamily) return {};
    StoredEntry entry;
    if (!ReadEntry(TextOf(key), TextOf(value), kMaxVersion, &entry)) {
      return rocksdb::Status::Corruption("a change out of bounds");
    }
    changes_.push_back({.kind = ChangeKind::kPut,
                        .sequence = sequence,
                        .version = entry.header.version,
                        .expiry_ms = entry.header.expiry_ms,
                        .key = entry.key,
                        .value = entry.value});
    return {};
  }
  rocksdb::Status DeleteCF(std::uint32_t family, const rocksdb::Slice& key) override {
    const std::uint64_t sequence = sequence_++;
    if (family != kDataFamily) return {};
    if (key.size() < kMinKeySize || key.size() > kMaxKeySize) {
      return rocksdb::Status::Corruption("a change out of bounds");
    }
    changes_.push_back({.kind = ChangeKind::kDelete, .sequence = sequence, .key = TextOf(key)});
    return {};
  }
  // The store deletes ranges only in the meta family.
  rocksdb::Status DeleteRangeCF(std::uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
    ++sequence_;
    return {};
  }
  void LogData(const rocksdb::Slice&) override {}

  std::uint64_t sequence() const { return sequence_; }

 private:
  std::uint64_t sequence_;
  std::vector<Change>& changes_;
};

}  // namespace

rocksdb::Status ReadChanges(const rocksdb::WriteBatch& group, std::uint64_t sequence,
                            std::vector<Change>* changes, std::uint64_t* end) {
  Collector collector(sequence, changes);
  const rocksdb::Status status = group.Iterate(&collector);
  *end = collector.sequence();
  return status;
}

namespace {

class WalChangeLog final : public ChangeLog {
 public:
  WalChangeLog(std::string place, std::uint64_t from) : place_(std::move(place)), position_(from) {}

  /// Does the work of ReadWalChanges.
  absl::Status Open(rocksdb::DB& db, bool gaps);

  absl::StatusOr<Step> Next(std::uint64_t end, Change* change) override;
  std::uint64_t position() const override { return position_; }

 private:
  absl::Status TakeGroup() {
    group_ = groups_->GetBatch();
    changes_.clear();
    next_ = 0;
    return ToStatus(ReadChanges(*group_.writeBatchPtr, group_.sequence, &changes_, &group_end_), place_);
  }

  const std::string place_;  // names the data directory in errors
  std::uint64_t position_;
  std::unique_ptr<rocksdb::TransactionLogIterator> groups_;
  rocksdb::BatchResult group_;
  std::vector<Change> changes_;  // of the group
  std::size_t next_ = 0;
  std::uint64_t group_end_ = 0;
};

absl::Status WalChangeLog::Open(rocksdb::DB& db, bool gaps) {
  const std::uint64_t from = position_;
  rocksdb::VectorLogPtr files;
  REMORA_RETURN_IF_ERROR(ToStatus(db.GetSortedWalFiles(files), place_));
  if (files.empty() || files.front()->StartSequence() > from) {
    return NotKept("its writes are not kept any more (--watch_retention)");
  }
  // If the file has been removed since, its writes are not kept, as above. If the file merely cannot be
  // opened right now, the caller may try again.
  if (const rocksdb::Status found = db.GetUpdatesSince(from, &groups_); !found.ok()) {
    if (WillPass(found)) return ToStatus(found, place_);
    return NotKept("its writes are being removed (--watch_retention)");
  }
  if (const rocksdb::Status read = groups_->status(); WillPass(read)) return ToStatus(read, place_);
  if (groups_->Valid()) REMORA_RETURN_IF_ERROR(TakeGroup());
  // Without a gap, the first group holds the sequence `from`.
  if (!gaps && (group_.writeBatchPtr == nullptr || group_.sequence > from)) {
    return NotKept(
        "some of its writes are not in the log (they were of durability memory and a restart came behind "
        "them, or they were lost with the machine)");
  }
  return absl::OkStatus();
}

absl::StatusOr<ChangeLog::Step> WalChangeLog::Next(std::uint64_t end, Change* change) {
  for (;;) {
    for (; next_ < changes_.size(); ++next_) {
      const Change& next = changes_[next_];
      if (next.sequence < position_) continue;
      if (next.sequence > end) return Step::kNone;
      position_ = next.sequence + 1;
      *change = next;
      ++next_;
      return Step::kChange;
    }
    position_ = std::max(position_, std::min(group_end_, end + 1));
    if (position_ > end) return Step::kNone;
    if (group_.writeBatchPtr == nullptr) return Step::kLost;  // Open found no group at its place
    groups_->Next();
    if (!groups_->Valid()) return Step::kLost;
    REMORA_RETURN_IF_ERROR(TakeGroup());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChangeLog>> ReadWalChanges(rocksdb::DB& db, const std::string& place,
                                                          std::uint64_t from, bool gaps) {
  auto log = std::make_unique<WalChangeLog>(place, from);
  REMORA_RETURN_IF_ERROR(log->Open(db, gaps));
  return log;
}

absl::StatusOr<std::vector<Opening>> AddOpening(rocksdb::DB& db, rocksdb::ColumnFamilyHandle& meta,
                                                const std::string& place, std::uint64_t incarnation) {
  std::string bytes;
  const rocksdb::Status found = db.Get({}, &meta, kOpeningsKey, &bytes);
  if (!found.IsNotFound()) REMORA_RETURN_IF_ERROR(ToStatus(found, place));
  std::optional<std::vector<Opening>> known = ReadOpenings(bytes);
  if (!known) return DamagedStatus(place, "its list of incarnations has the wrong size");
  std::vector<Opening> openings = *std::move(known);
  openings.push_back({incarnation, db.GetLatestSequenceNumber()});
  if (openings.size() > kOpenings) openings.erase(openings.begin(), openings.end() - kOpenings);
  const rocksdb::Slice value(reinterpret_cast<const char*>(openings.data()),
                             openings.size() * sizeof(Opening));
  REMORA_RETURN_IF_ERROR(ToStatus(db.Put({}, &meta, kOpeningsKey, value), place));
  return openings;
}

}  // namespace remora
