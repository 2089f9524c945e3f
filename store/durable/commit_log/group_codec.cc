#include "store/durable/commit_log/group_codec.h"

#include <atomic>
#include <cstring>

#include "store/format/memory/hash.h"

namespace remora {
namespace {

constexpr std::uint64_t Aligned(std::uint64_t size) {
  return (size + kLogAlignment - 1) & ~(kLogAlignment - 1);
}

/// Returns whether the sizes are in the bounds of the kind. The key of a kMeta entry may be empty.
bool IsLogEntry(LogEntryKind kind, std::size_t key_size, std::size_t value_size) {
  if (key_size > kMaxKeySize || value_size > kMaxValueSize) return false;
  switch (kind) {
    case LogEntryKind::kPut:
      return key_size >= kMinKeySize;
    case LogEntryKind::kDelete:
      return key_size >= kMinKeySize && value_size == 0;
    case LogEntryKind::kMeta:
      return true;
  }
  return false;
}

std::uint64_t EntrySize(std::size_t key_size, std::size_t value_size, bool has_request) {
  return Aligned(sizeof(LogEntryHeader) + (has_request ? sizeof(LogRequest) : 0) + key_size + value_size);
}

char* Put(char* to, const void* bytes, std::size_t size) {
  // The pointer of an empty view may be null, which memcpy must not get.
  if (size != 0) std::memcpy(to, bytes, size);
  return to + size;
}

char* EncodeEntry(const LogEntry& entry, char* to) {
  const bool has_request = entry.request.client != 0;
  char* const end = to + EntrySize(entry.key.size(), entry.value.size(), has_request);
  std::memset(end - kLogAlignment, 0, kLogAlignment);  // the pad; later stores overwrite other bytes of it
  const LogEntryHeader header = {.version = entry.version,
                                 .expiry_ms = entry.expiry_ms,
                                 .value_size = static_cast<std::uint32_t>(entry.value.size()),
                                 .key_size = static_cast<std::uint16_t>(entry.key.size()),
                                 .kind = entry.kind,
                                 .flags = has_request ? kHasRequest : std::uint8_t{0}};
  to = Put(to, &header, sizeof(header));
  if (has_request) {
    const LogRequest request = {entry.request.client, entry.request.number, entry.result};
    to = Put(to, &request, sizeof(request));
  }
  to = Put(to, entry.key.data(), entry.key.size());
  Put(to, entry.value.data(), entry.value.size());
  return end;
}

/// Returns the checksum of all bytes behind the first 8, which hold the checksum itself.
std::uint64_t ChecksumOf(const char* bytes, std::uint64_t size) {
  return HashBytes(bytes + sizeof(std::uint64_t), size - sizeof(std::uint64_t));
}

}  // namespace

std::uint64_t LogGroupSize(std::span<const LogEntry> entries) {
  std::uint64_t size = sizeof(LogGroupHeader);
  for (const LogEntry& entry : entries) {
    if (!IsLogEntry(entry.kind, entry.key.size(), entry.value.size())) return 0;
    size += EntrySize(entry.key.size(), entry.value.size(), entry.request.client != 0);
  }
  return entries.empty() || size > kMaxLogFileSize ? 0 : size;
}

std::uint64_t EncodeLogGroup(std::span<const LogEntry> entries, std::uint64_t size,
                             const LogGroupPlace& place, char* to) {
  const LogGroupHeader header = {.checksum = 0,
                                 .magic = kLogGroupMagic,
                                 .size = static_cast<std::uint32_t>(size),
                                 .lsn = place.lsn.value,
                                 .incarnation = place.incarnation,
                                 .previous = place.previous,
                                 .first_version = entries.front().version,
                                 .synced_to = place.synced_to.value,
                                 .count = static_cast<std::uint32_t>(entries.size()),
                                 .reserved = 0};
  std::memcpy(to, &header, sizeof(header));
  char* at = to + sizeof(header);
  for (const LogEntry& entry : entries) at = EncodeEntry(entry, at);
  const std::uint64_t checksum = ChecksumOf(to, size);
  // Stored last, also if the process dies here: release orders all stores above before this one.
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to))
      .store(checksum, std::memory_order_release);
  return checksum;
}

bool LogEntries::Next(LogEntry* entry) {
  LogEntryHeader header;
  if (rest_.size() < sizeof(header)) return false;
  std::memcpy(&header, rest_.data(), sizeof(header));
  const bool has_request = (header.flags & kHasRequest) != 0;
  if ((header.flags & ~kHasRequest) != 0 || !IsLogEntry(header.kind, header.key_size, header.value_size))
    return false;
  const std::uint64_t size = EntrySize(header.key_size, header.value_size, has_request);
  if (size > rest_.size()) return false;
  std::string_view bytes = rest_.substr(sizeof(header));
  LogRequest request = {};
  if (has_request) {
    std::memcpy(&request, bytes.data(), sizeof(request));
    bytes.remove_prefix(sizeof(request));
    if (request.client == 0) return false;
  }
  *entry = {.kind = header.kind,
            .version = header.version,
            .expiry_ms = header.expiry_ms,
            .key = bytes.substr(0, header.key_size),
            .value = bytes.substr(header.key_size, header.value_size),
            .request = {request.client, request.number},
            .result = request.result};
  rest_.remove_prefix(size);
  return true;
}

std::uint64_t StatedLogGroupSize(std::string_view bytes, Lsn lsn, std::uint64_t most) {
  LogGroupHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const bool is_one = header.magic == kLogGroupMagic && header.lsn == lsn.value && header.incarnation != 0 &&
                      header.count != 0 && header.reserved == 0 && header.size % kLogAlignment == 0 &&
                      header.size > sizeof(header) && header.size <= most;
  return is_one ? header.size : 0;
}

std::optional<LogGroup> VerifyLogGroup(std::string_view bytes, Lsn lsn) {
  if (bytes.size() < sizeof(LogGroupHeader)) return std::nullopt;
  const std::uint64_t size = StatedLogGroupSize(bytes, lsn, bytes.size());
  if (size == 0) return std::nullopt;
  LogGroup group;
  std::memcpy(&group.header, bytes.data(), sizeof(group.header));
  group.bytes = bytes.substr(sizeof(LogGroupHeader), size - sizeof(LogGroupHeader));
  if (group.header.checksum != ChecksumOf(bytes.data(), size)) return std::nullopt;
  // A forged checksum may match, so check the entries, too. Readers then need no check of their own.
  LogEntries entries = group.entries();
  LogEntry entry;
  std::uint32_t count = 0;
  while (entries.Next(&entry)) {
    if (count++ == 0 && entry.version != group.header.first_version) return std::nullopt;
  }
  if (!entries.empty() || count != group.header.count) return std::nullopt;
  return group;
}

LogFileHeader MakeLogFileHeader(Lsn first, std::uint64_t size, std::uint64_t incarnation,
                                std::uint64_t previous) {
  LogFileHeader header = {.checksum = 0,
                          .magic = kLogFileMagic,
                          .format = kCommitLogFormat,
                          .first = first.value,
                          .size = size,
                          .incarnation = incarnation,
                          .previous = previous,
                          .reserved = {}};
  header.checksum = ChecksumOf(reinterpret_cast<const char*>(&header), sizeof(header));
  return header;
}

std::optional<LogFileHeader> VerifyLogFileHeader(std::string_view bytes, Lsn first, std::uint64_t size) {
  LogFileHeader header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const bool is_one = header.magic == kLogFileMagic && header.format == kCommitLogFormat &&
                      header.first == first.value && header.size == size &&
                      header.checksum == ChecksumOf(bytes.data(), sizeof(header));
  if (!is_one) return std::nullopt;
  return header;
}

}  // namespace remora
