#include "store/durable/tier_log/group_history.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/tier_log/group_numbers.h"

namespace remora {
namespace {

absl::Status GroupNotKept(std::uint64_t number) {
  return absl::OutOfRangeError(
      absl::StrCat("read groups: group ", number, " is not in the commit log any more"));
}

/// Returns the number that the group sets. 0: it removes the number. Nothing: it does not concern the number.
std::optional<std::uint64_t> NumberIn(const LogGroup& group) {
  std::optional<std::uint64_t> number;
  LogEntries entries = group.entries();
  LogEntry entry;
  while (entries.Next(&entry)) {
    if (entry.kind != LogEntryKind::kMeta || entry.key != kGroupNumberKey) continue;
    number = ReadGroupNumber(entry.value).value_or(0);
  }
  return number;
}

}  // namespace

// A store that left a history may have begun another one, with the same numbers. So the last group of this
// number counts, unless the number was removed behind it.
absl::StatusOr<std::unique_ptr<GroupHistory>> GroupHistory::Open(const CommitLog& log, std::uint64_t from) {
  std::unique_ptr<GroupHistory> history(new GroupHistory(log, from));
  const Lsn until = log.appended();
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<CommitLogReader> reader, log.Read(log.first()));
  std::optional<Lsn> found;
  for (;;) {
    const Lsn before = reader->end();
    REMORA_ASSIGN_OR_RETURN(const bool moved, reader->Next(until));
    if (!moved) break;
    const std::optional<std::uint64_t> number = NumberIn(reader->group());
    if (number == from) found = before;
    if (number && *number < from) found.reset();  // another history begins, or this one was left
  }
  if (!found) return GroupNotKept(from);
  REMORA_ASSIGN_OR_RETURN(history->reader_, log.Read(*found, LogPlace::kInGroup));
  return history;
}

absl::StatusOr<bool> GroupHistory::Next() {
  for (;;) {
    const absl::StatusOr<bool> moved = reader_->Next(log_.appended());
    if (absl::IsOutOfRange(moved.status())) return GroupNotKept(next_);
    REMORA_RETURN_IF_ERROR(moved.status());
    if (!*moved) return false;
    const std::optional<std::uint64_t> number = NumberIn(reader_->group());
    if (!number || *number < next_) continue;  // an opening; or Open began before the group
    if (*number != next_) return GroupNotKept(next_);
    Encode(reader_->group());
    ++next_;
    return true;
  }
}

void GroupHistory::Encode(const LogGroup& group) {
  entries_.clear();
  LogEntries entries = group.entries();
  LogEntry entry;
  while (entries.Next(&entry)) entries_.push_back(entry);
  const std::uint64_t size = LogGroupSize(entries_);
  encoded_.resize(size / sizeof(std::uint64_t));
  const LogGroupPlace place = {
      .lsn = Lsn{next_}, .incarnation = group.header.incarnation, .previous = 0, .synced_to = {}};
  EncodeLogGroup(entries_, size, place, reinterpret_cast<char*>(encoded_.data()));
}

std::string_view GroupHistory::bytes() const {
  return {reinterpret_cast<const char*>(encoded_.data()), encoded_.size() * sizeof(std::uint64_t)};
}

}  // namespace remora
