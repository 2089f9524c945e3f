#include "store/durable/tier_log/shipped_group.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/completion_records.h"
#include "store/durable/format.h"
#include "store/durable/tier_log/group_numbers.h"
#include "store/durable/tier_log/log_change_feed.h"

namespace remora {
namespace {

absl::Status Damaged(std::uint64_t number, std::string_view why) {
  return absl::DataLossError(absl::StrCat(
      "group ", number, " of the primary was not applied: ", AbslView(why), "; ask for it again"));
}

/// Returns whether the entry is a registration or a completion record of a client, or removes one.
bool IsOfClient(const LogEntry& entry) {
  if (!entry.key.starts_with(kClientPrefix)) return false;
  const std::size_t size = entry.key.size() - kClientPrefix.size();
  const std::size_t value_size = entry.value.size();
  if (size == sizeof(std::uint64_t))
    return value_size == 0 || value_size == sizeof(ClientCompletions::since_ms);
  return size == sizeof(std::uint64_t) + 1 && (value_size == 0 || value_size == sizeof(CompletionRecord));
}

/// Notes the version of a write. Returns false if no store writes such an entry.
bool TakeWrite(const LogEntry& entry, ShippedGroup* group) {
  // The deletion of an expired key has no version.
  if (entry.version == 0) return entry.kind == LogEntryKind::kDelete && entry.request.client == 0;
  if (group->is_copied) {
    return entry.kind == LogEntryKind::kPut && entry.request.client == 0 && entry.version < kMaxVersion;
  }
  if (entry.version <= group->last_version || entry.version >= kMaxVersion) return false;
  if (group->first_version == 0) group->first_version = entry.version;
  group->last_version = entry.version;
  return true;
}

/// Notes what the store's own data say. Returns false if no group has such data.
bool TakeMeta(const LogEntry& entry, ShippedGroup* group, bool* has_number) {
  if (entry.request.client != 0) return false;
  if (entry.key == kGroupNumberKey) {
    const bool is_first = !*has_number;
    *has_number = true;
    return is_first && ReadGroupNumber(entry.value) == group->number;
  }
  if (entry.key == kVersionLimitKey) {
    const std::optional<std::uint64_t> limit = ReadVersionLimit(entry.value);
    if (!limit || *limit < group->version_limit) return false;
    group->version_limit = *limit;
    return true;
  }
  if (entry.key == kCopiedKey) {
    group->is_copied = group->last_version == 0;  // before the first write
    return group->is_copied;
  }
  return entry.key == kSlotsKey || IsOfClient(entry);
}

}  // namespace

absl::StatusOr<ShippedGroup> ReadShippedGroup(std::uint64_t number, std::string_view bytes) {
  const std::optional<LogGroup> decoded = VerifyLogGroup(bytes, Lsn{number});
  if (!decoded || decoded->header.size != bytes.size()) {
    return Damaged(number, "its bytes do not match their checksum, or belong to another group");
  }
  ShippedGroup group;
  group.number = number;
  group.checksum = decoded->header.checksum;
  group.entries.reserve(decoded->header.count);
  LogEntries entries = decoded->entries();
  LogEntry entry;
  bool has_number = false;
  while (entries.Next(&entry)) {
    const bool is_meta = entry.kind == LogEntryKind::kMeta;
    if (!(is_meta ? TakeMeta(entry, &group, &has_number) : TakeWrite(entry, &group))) {
      return Damaged(number, "it has an entry that no store writes");
    }
    group.entries.push_back(entry);
  }
  if (!has_number) return Damaged(number, "it does not have its number");
  return group;
}

}  // namespace remora
