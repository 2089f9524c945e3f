#include "store/durable/tier_log/log_change_feed.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "store/base/status_macros.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/commit_log/log_reader.h"
#include "store/durable/status.h"

namespace remora {
namespace {

constexpr std::string_view kOpeningsPlace = "durable tier";

absl::Status NotInLogAnyMore() { return NotKept("its writes are not kept any more (--watch_retention)"); }

class LogChangeLog final : public ChangeLog {
 public:
  LogChangeLog(std::unique_ptr<CommitLogReader> reader, std::uint64_t from)
      : reader_(std::move(reader)), position_(from) {}

  absl::StatusOr<Step> Next(std::uint64_t end, Change* change) override {
    for (;;) {
      LogEntry entry;
      while (rest_.Next(&entry)) {
        REMORA_ASSIGN_OR_RETURN(const bool is_change, Take(entry, change));
        if (is_change) return Step::kChange;
      }
      position_ = std::max(position_, reader_->end().value + 1);  // C8b
      if (position_ > end) return Step::kNone;
      const absl::StatusOr<bool> moved = reader_->Next(Lsn{end});
      if (absl::IsOutOfRange(moved.status())) return NotInLogAnyMore();
      REMORA_RETURN_IF_ERROR(moved.status());
      if (!*moved) return Step::kNone;
      rest_ = reader_->group().entries();
    }
  }
  std::uint64_t position() const override { return position_; }

 private:
  /// Returns false if the entry is no change of a key, or is before position(). OutOfRange: C8c.
  absl::StatusOr<bool> Take(const LogEntry& entry, Change* change) {
    const LogGroup& group = reader_->group();
    const auto offset = static_cast<std::uint64_t>(entry.key.data() - group.bytes.data());
    const std::uint64_t sequence = group.header.lsn + sizeof(LogGroupHeader) + offset;
    if (entry.kind == LogEntryKind::kMeta && entry.key == kCopiedKey) copied_group_ = group.header.lsn;
    if (sequence < position_) return false;
    if (entry.kind == LogEntryKind::kMeta) {
      if (entry.key == kSlotsKey) return NotKept(kSlotsLeft);
      if (entry.key != kGapKey) return false;
      return NotKept(
          "one of its writes is larger than a file of the commit log, which therefore does not have it");
    }
    const bool is_put = entry.kind == LogEntryKind::kPut;
    if (!is_put && entry.expiry_ms == kForgottenMark) return false;
    if (is_put && copied_group_ == group.header.lsn) return false;
    position_ = sequence + 1;
    *change = {.kind = is_put ? ChangeKind::kPut : ChangeKind::kDelete,
               .sequence = sequence,
               .version = is_put ? entry.version : 0,
               .expiry_ms = entry.expiry_ms,
               .key = entry.key,
               .value = entry.value};
    return true;
  }

  const std::unique_ptr<CommitLogReader> reader_;
  std::uint64_t position_;
  LogEntries rest_{{}};             // of the reader's group
  std::uint64_t copied_group_ = 0;  // LSN of the last group that begins with kCopiedKey; 0: none has
};

}  // namespace

std::string LogOpeningKey(Lsn found) {
  std::string key(kLogOpeningPrefix);
  for (int bits = 56; bits >= 0; bits -= 8) key += static_cast<char>(found.value >> bits & 0xff);
  return key;
}

absl::StatusOr<std::vector<Opening>> ReadLogOpenings(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta) {
  std::vector<Opening> openings;
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}, meta));
  for (at->Seek({kLogOpeningPrefix.data(), kLogOpeningPrefix.size()}); at->Valid(); at->Next()) {
    const std::string_view key(at->key().data(), at->key().size());
    if (!key.starts_with(kLogOpeningPrefix)) break;
    Opening& opening = openings.emplace_back();
    if (at->value().size() != sizeof(opening)) {
      return DamagedStatus(kOpeningsPlace, "an incarnation that it has seen has the wrong size");
    }
    std::memcpy(&opening, at->value().data(), sizeof(opening));
  }
  REMORA_RETURN_IF_ERROR(ToStatus(at->status(), kOpeningsPlace));
  return openings;
}

absl::StatusOr<std::unique_ptr<ChangeLog>> ReadLogChanges(const CommitLog& log, std::uint64_t from) {
  absl::StatusOr<std::unique_ptr<CommitLogReader>> reader = log.Read(Lsn{from - 1}, LogPlace::kInGroup);
  if (absl::IsOutOfRange(reader.status())) return NotInLogAnyMore();
  REMORA_RETURN_IF_ERROR(reader.status());
  return std::make_unique<LogChangeLog>(*std::move(reader), from);
}

}  // namespace remora
