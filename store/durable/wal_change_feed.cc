#include "store/durable/wal_change_feed.h"

#include <rocksdb/db.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/durable/status.h"
#include "store/format/wire/resume_token.h"

namespace remora {
namespace {

constexpr char kOpeningsKey[] = "openings";
constexpr std::uint32_t kDataFamily = 0;  // RocksDB's "default"

absl::Status NotKept(const char* why) {
  return absl::OutOfRangeError(absl::StrCat("the change feed cannot go on there: ", why,
                                            "; watch from now on, scan all, then go on with the watch"));
}

absl::Status NotReached() {
  return absl::InvalidArgumentError("a change feed from a place that was not reached");
}

std::string_view TextOf(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

/// Takes the changes of keys out of a group's writes, and counts them all: each has a sequence.
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
  // Of the meta family.
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

struct ChangeLog::Rep {
  std::string place;  // of the data directory, for errors
  std::uint64_t position = 0;
  std::unique_ptr<rocksdb::TransactionLogIterator> groups;
  rocksdb::BatchResult group;
  std::vector<Change> changes;  // of the group
  std::size_t next = 0;
  std::uint64_t group_end = 0;

  absl::Status TakeGroup() {
    group = groups->GetBatch();
    changes.clear();
    next = 0;
    return ToStatus(ReadChanges(*group.writeBatchPtr, group.sequence, &changes, &group_end), place);
  }
};

ChangeLog::ChangeLog(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
ChangeLog::~ChangeLog() = default;
std::uint64_t ChangeLog::position() const { return rep_->position; }

absl::StatusOr<std::unique_ptr<ChangeLog>> ChangeLog::Open(rocksdb::DB& db, const std::string& place,
                                                           std::uint64_t from, bool gaps) {
  rocksdb::VectorLogPtr files;
  REMORA_RETURN_IF_ERROR(ToStatus(db.GetSortedWalFiles(files), place));
  if (files.empty() || files.front()->StartSequence() > from) {
    return NotKept("its writes are not kept any more (--watch_retention)");
  }
  auto rep = std::make_unique<Rep>();
  rep->place = place;
  rep->position = from;
  // A file that was removed since is as above; one that cannot be opened right now is not.
  if (const rocksdb::Status found = db.GetUpdatesSince(from, &rep->groups); !found.ok()) {
    if (WillPass(found)) return ToStatus(found, place);
    return NotKept("its writes are being removed (--watch_retention)");
  }
  if (const rocksdb::Status read = rep->groups->status(); WillPass(read)) return ToStatus(read, place);
  if (rep->groups->Valid()) REMORA_RETURN_IF_ERROR(rep->TakeGroup());
  // Else the first group is the one that `from` is in.
  if (!gaps && (rep->group.writeBatchPtr == nullptr || rep->group.sequence > from)) {
    return NotKept(
        "some of its writes are not in the log (they were of durability memory and a restart came behind "
        "them, or "
        "they were lost with the machine)");
  }
  return std::unique_ptr<ChangeLog>(new ChangeLog(std::move(rep)));
}

absl::StatusOr<ChangeLog::Step> ChangeLog::Next(std::uint64_t end, Change* change) {
  Rep& rep = *rep_;
  for (;;) {
    for (; rep.next < rep.changes.size(); ++rep.next) {
      const Change& next = rep.changes[rep.next];
      if (next.sequence < rep.position) continue;
      if (next.sequence > end) return Step::kNone;
      rep.position = next.sequence + 1;
      *change = next;
      ++rep.next;
      return Step::kChange;
    }
    rep.position = std::max(rep.position, std::min(rep.group_end, end + 1));
    if (rep.position > end) return Step::kNone;
    if (rep.group.writeBatchPtr == nullptr) return Step::kLost;  // there was none behind its place
    rep.groups->Next();
    if (!rep.groups->Valid()) return Step::kLost;
    REMORA_RETURN_IF_ERROR(rep.TakeGroup());
  }
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

absl::StatusOr<std::uint64_t> Continue(const std::vector<Opening>& openings, const ChangePlace& place,
                                       std::uint64_t end) {
  auto opening = std::find_if(openings.begin(), openings.end(),
                              [&](const Opening& other) { return other.incarnation == place.incarnation; });
  if (opening == openings.end()) return NotKept("the data is other, or was restored");
  // So that what is counted below has room, whatever a damaged opening says.
  if (place.sequence == 0 || place.sequence > kMaxSequence) return NotReached();
  std::uint64_t shown = place.sequence - 1;
  if (++opening != openings.end() && shown > opening->found) {
    return NotKept("what it has shown was lost with the machine, or the data was restored");
  }
  // An opening's own write is no change, and its log is not kept if nothing else was written.
  for (; opening != openings.end(); ++opening) {
    if (shown == opening->found) ++shown;
  }
  if (shown > end) return NotReached();
  return shown + 1;
}

}  // namespace remora
