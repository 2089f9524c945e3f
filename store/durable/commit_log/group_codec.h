// Encodes and decodes groups of the commit log (format.h). Pure functions and views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "store/durable/commit_log/format.h"

namespace remora {

/// Bytes of a group with these entries; 0: there is none, because it has no entry, or an entry's
/// kind or sizes are out of bounds, or it has more bytes than the largest file.
std::uint64_t LogGroupSize(std::span<const LogEntry> entries);

/// What a group says beside its entries.
struct LogGroupPlace {
  Lsn lsn;
  std::uint64_t incarnation = 0;
  std::uint64_t previous = 0;
  Lsn synced_to;
};

/// Writes the group to `to`, its checksum last, and returns the checksum.
/// REQUIRES: `size` is LogGroupSize(entries) and not 0; `to` has so many bytes and is aligned to 8.
std::uint64_t EncodeLogGroup(std::span<const LogEntry> entries, std::uint64_t size,
                             const LogGroupPlace& place, char* to);

/// The entries of a group, one after the other. The views that it shows point into its bytes.
class LogEntries {
 public:
  explicit LogEntries(std::string_view bytes) : rest_(bytes) {}

  /// Shows the next entry. False: there is none, or the bytes are no entry. Of a group that
  /// verified, the former.
  bool Next(LogEntry* entry);
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

/// A group that verified, as a view of its bytes.
struct LogGroup {
  LogGroupHeader header;
  std::string_view bytes;  // of the entries

  Lsn end() const { return Lsn{header.lsn} + header.size; }
  LogEntries entries() const { return LogEntries(bytes); }
};

/// Returns the size that a group's header states, if a group with this LSN may begin with it and
/// have at most `most` bytes; else 0. REQUIRES: `bytes` has at least sizeof(LogGroupHeader) bytes.
std::uint64_t StatedLogGroupSize(std::string_view bytes, Lsn lsn, std::uint64_t most);

/// Returns the group that begins `bytes`, if one verifies there. Whether it follows another one,
/// the caller checks.
std::optional<LogGroup> VerifyLogGroup(std::string_view bytes, Lsn lsn);

/// The header of a file that begins with `first`, checksum included.
LogFileHeader MakeLogFileHeader(Lsn first, std::uint64_t size, std::uint64_t incarnation,
                                std::uint64_t previous);

/// Returns the header that begins `bytes`, if it is that of a file of this name and size.
std::optional<LogFileHeader> VerifyLogFileHeader(std::string_view bytes, Lsn first, std::uint64_t size);

}  // namespace remora
