// Encoder and decoder of groups of the commit log (format.h): pure functions and views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "store/durable/commit_log/format.h"

namespace remora {

/// Returns the number of bytes of a group with these entries. Returns 0 if there is no entry, a kind
/// or size is out of bounds, or the group is larger than the largest file.
std::uint64_t LogGroupSize(std::span<const LogEntry> entries);

/// The fields of a group's header that do not follow from its entries.
struct LogGroupPlace {
  Lsn lsn;
  std::uint64_t incarnation = 0;
  std::uint64_t previous = 0;
  Lsn synced_to;
};

/// Writes the group to `to`, its checksum last, and returns the checksum. REQUIRES: `size` is
/// LogGroupSize(entries) and not 0; `to` has `size` bytes and is aligned to 8.
std::uint64_t EncodeLogGroup(std::span<const LogEntry> entries, std::uint64_t size,
                             const LogGroupPlace& place, char* to);

/// A cursor over the entries of a group. The views in each entry point into the bytes of the group.
class LogEntries {
 public:
  explicit LogEntries(std::string_view bytes) : rest_(bytes) {}

  /// Moves to the next entry. Returns false if there is none, or if the next bytes are no valid
  /// entry, which does not happen in a group that verified.
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

/// Returns the size that the group header at the start of `bytes` states. Returns 0 if it is no
/// header of a group with this LSN and at most `most` bytes. Does not test the checksum. REQUIRES:
/// `bytes` has at least sizeof(LogGroupHeader) bytes.
std::uint64_t StatedLogGroupSize(std::string_view bytes, Lsn lsn, std::uint64_t most);

/// Returns the group at the start of `bytes`, if it verifies at `lsn`. The caller checks whether it
/// follows the group before it.
std::optional<LogGroup> VerifyLogGroup(std::string_view bytes, Lsn lsn);

/// Returns the header, with its checksum, of a file that begins at `first`.
LogFileHeader MakeLogFileHeader(Lsn first, std::uint64_t size, std::uint64_t incarnation,
                                std::uint64_t previous);

/// Returns the header at the start of `bytes`, if it verifies for a file with this first LSN and
/// size.
std::optional<LogFileHeader> VerifyLogFileHeader(std::string_view bytes, Lsn first, std::uint64_t size);

}  // namespace remora
