#include "store/durable/tier_log/scan_overlay.h"

#include <algorithm>

#include "store/base/status_macros.h"

namespace remora {

absl::StatusOr<std::unique_ptr<ScanOverlay>> ScanOverlay::Read(const std::string& dir,
                                                               const LogPosition& from, Lsn until,
                                                               const ScanRange& range) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<CommitLogReader> reader, CommitLogReader::Resume(dir, from));
  std::unique_ptr<ScanOverlay> overlay(new ScanOverlay(range));
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const bool more, reader->Next(until));
    if (!more) break;
    overlay->Add(reader->group());
  }
  overlay->Sort();
  return overlay;
}

void ScanOverlay::Add(const LogGroup& group) {
  LogEntries entries = group.entries();
  LogEntry entry;
  while (entries.Next(&entry)) {
    if (entry.kind == LogEntryKind::kMeta || !range_.Contains(entry.key)) continue;
    std::string& bytes = bytes_.emplace_back();
    bytes.reserve(entry.key.size() + entry.value.size());
    bytes.append(entry.key).append(entry.value);
    const std::string_view own(bytes);
    LogEntry& added = entries_.emplace_back(entry);
    added.key = own.substr(0, entry.key.size());
    added.value = own.substr(entry.key.size());
  }
}

void ScanOverlay::Sort() {
  // Stable: the last entry of a key stays behind the others, and so comes first from the end.
  std::stable_sort(entries_.begin(), entries_.end(),
                   [this](const LogEntry& a, const LogEntry& b) { return IsBefore(a.key, b.key); });
  const auto begin = std::unique(entries_.rbegin(), entries_.rend(),
                                 [](const LogEntry& a, const LogEntry& b) { return a.key == b.key; });
  entries_.erase(entries_.begin(), begin.base());
}

}  // namespace remora
