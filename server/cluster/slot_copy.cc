#include "server/cluster/slot_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"

namespace remora {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{256} << 10;

absl::Status CopyFault(int error, std::string_view step, const std::string& path) {
  return MarkedByErrno(error, absl::UnavailableError(absl::StrCat("move: cannot ", AbslView(step), " ", path,
                                                                  ": ", std::strerror(error))));
}

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = FolderOf(path);
  const rdma::UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return CopyFault(errno, "open", folder);
  return ::fsync(fd.get()) == 0 ? absl::OkStatus() : CopyFault(errno, "sync", folder);
}

/// `path`: for errors.
absl::StatusOr<std::string> ReadWhole(const rdma::UniqueFd& fd, const std::string& path) {
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return CopyFault(errno, "read", path);
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::pread(fd.get(), bytes.data() + size, bytes.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CopyFault(errno, "read", path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

absl::Status NotWhole(const std::string& path) {
  return absl::DataLossError(absl::StrCat("move: the copy ", path, " is not whole, or is damaged"));
}

/// Returns the entry at a place of the file, or nothing if it has none in its bounds.
std::optional<SlotCopyEntry> EntryAt(std::string_view bytes, std::size_t at) {
  SlotCopyEntry entry;
  if (bytes.size() - at < sizeof(entry)) return std::nullopt;
  std::memcpy(&entry, bytes.data() + at, sizeof(entry));
  const bool is_end = entry.kind == SlotCopyKind::kEnd;
  const bool is_gone = entry.kind == SlotCopyKind::kGone;
  if (!is_end && !is_gone && entry.kind != SlotCopyKind::kRecord) return std::nullopt;
  if (is_end ? entry.key_size != 0 : entry.key_size < kMinKeySize || entry.key_size > kMaxKeySize) {
    return std::nullopt;
  }
  if (entry.value_size > (is_end || is_gone ? 0 : kMaxValueSize)) return std::nullopt;
  const std::size_t size = std::size_t{entry.key_size} + entry.value_size;
  return bytes.size() - at - sizeof(entry) < size ? std::nullopt : std::optional(entry);
}

absl::StatusOr<std::unique_ptr<SlotCopy>> ReadCopy(const rdma::UniqueFd& fd, const std::string& path) {
  auto copy = std::make_unique<SlotCopy>();
  REMORA_ASSIGN_OR_RETURN(copy->bytes, ReadWhole(fd, path));
  const std::string_view bytes = copy->bytes;
  if (bytes.size() < sizeof(copy->header)) return NotWhole(path);
  std::memcpy(&copy->header, bytes.data(), sizeof(copy->header));
  if (copy->header.magic != kSlotCopyMagic) return NotWhole(path);
  std::uint64_t checksum = HashBytes(bytes.data(), sizeof(copy->header));
  std::uint64_t count = 0;
  absl::flat_hash_map<absl::string_view, SlotRecord> last;
  for (std::size_t at = sizeof(copy->header);;) {
    const std::optional<SlotCopyEntry> entry = EntryAt(bytes, at);
    if (!entry) return NotWhole(path);
    const std::size_t size = sizeof(*entry) + entry->key_size + entry->value_size;
    if (entry->kind == SlotCopyKind::kEnd) {
      if (at + size != bytes.size() || entry->checksum != checksum || entry->number != count) {
        return NotWhole(path);
      }
      copy->versions_end = entry->version;
      break;
    }
    const std::string_view key = bytes.substr(at + sizeof(*entry), entry->key_size);
    if (entry->kind == SlotCopyKind::kGone) {
      last.erase(AbslView(key));
    } else {
      last[AbslView(key)] = {key, bytes.substr(at + sizeof(*entry) + entry->key_size, entry->value_size),
                             entry->version, entry->number};
    }
    checksum = ChainSlotCopy(checksum, bytes.data() + at, size);
    ++count;
    at += size;
  }
  copy->records.reserve(last.size());
  for (const auto& [key, record] : last) copy->records.push_back(record);
  return copy;
}

}  // namespace

ClusterSlots SlotsOfCopy(const SlotCopyHeader& header) {
  ClusterSlots slots;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if ((header.slots[slot / 8] >> (slot % 8) & 1) != 0) slots.Add(slot, slot);
  }
  return slots;
}

void SetSlots(const ClusterSlots& slots, SlotCopyHeader* header) {
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (slots.Has(slot)) header->slots[slot / 8] |= static_cast<std::uint8_t>(1U << (slot % 8));
  }
}

std::string MoveText(std::uint64_t move) { return ClusterText(move); }
std::uint64_t MoveIn(std::string_view text) { return ClusterIn(text).value_or(0); }

// --- The writer -----------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<SlotCopyWriter>> SlotCopyWriter::Create(const std::string& path,
                                                                       const SlotCopyHeader& header) {
  rdma::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return CopyFault(errno, "make", path);
  std::unique_ptr<SlotCopyWriter> writer(new SlotCopyWriter(path, std::move(file)));
  writer->buffer_.assign(reinterpret_cast<const char*>(&header), sizeof(header));
  writer->bytes_ = sizeof(header);
  writer->checksum_ = HashBytes(&header, sizeof(header));
  return writer;
}

absl::Status SlotCopyWriter::Add(std::string_view key, const SlotRecord* record) {
  SlotCopyEntry entry{.key_size = static_cast<std::uint16_t>(key.size()), .kind = SlotCopyKind::kGone};
  if (record != nullptr) {
    entry.kind = SlotCopyKind::kRecord;
    entry.version = record->version;
    entry.number = record->expiry_ms;
    entry.value_size = static_cast<std::uint32_t>(record->value.size());
    keys_[AbslView(key)] = record->expiry_ms != 0;
  } else {
    keys_.erase(AbslView(key));
  }
  ++entries_;
  return Append(entry, key, record != nullptr ? record->value : std::string_view());
}

absl::Status SlotCopyWriter::Append(const SlotCopyEntry& entry, std::string_view key,
                                    std::string_view value) {
  const std::size_t begin = buffer_.size();
  buffer_.append(reinterpret_cast<const char*>(&entry), sizeof(entry)).append(key).append(value);
  checksum_ = ChainSlotCopy(checksum_, buffer_.data() + begin, buffer_.size() - begin);
  bytes_ += buffer_.size() - begin;
  return buffer_.size() < kWriteBytes ? absl::OkStatus() : Flush();
}

absl::Status SlotCopyWriter::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t count = ::write(file_.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CopyFault(errno, "write", path_);
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status SlotCopyWriter::Seal(std::uint64_t versions_end, bool synced) {
  REMORA_RETURN_IF_ERROR(
      Append({.version = versions_end, .number = entries_, .checksum = checksum_, .kind = SlotCopyKind::kEnd},
             {}, {}));
  REMORA_RETURN_IF_ERROR(Flush());
  if (synced && ::fsync(file_.get()) != 0) return CopyFault(errno, "sync", path_);
  return absl::OkStatus();
}

// --- The reader -----------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<SlotCopy>> SlotCopyWriter::Read() const { return ReadCopy(file_, path_); }

absl::StatusOr<std::unique_ptr<SlotCopy>> ReadSlotCopy(const std::string& path) {
  const rdma::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd) return ReadCopy(fd, path);
  if (errno == ENOENT) return absl::NotFoundError(absl::StrCat("move: there is no copy ", path));
  return CopyFault(errno, "open", path);
}

// --- Files ----------------------------------------------------------------------------------------------

absl::Status RenameSynced(const std::string& from, const std::string& to, bool synced) {
  if (synced) {
    const rdma::UniqueFd fd(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd || ::fsync(fd.get()) != 0) return CopyFault(errno, "sync", from);
  }
  if (std::rename(from.c_str(), to.c_str()) != 0) return CopyFault(errno, "rename", from);
  return synced ? SyncFolderOf(to) : absl::OkStatus();
}

absl::Status RemoveSynced(const std::string& path) {
  if (::unlink(path.c_str()) != 0) {
    return errno == ENOENT ? absl::OkStatus() : CopyFault(errno, "remove", path);
  }
  return SyncFolderOf(path);
}

std::vector<std::string> FilesWithPrefix(const std::string& prefix) {
  const std::string folder = FolderOf(prefix);
  const std::string begin = prefix.substr(prefix.rfind('/') + 1);  // npos + 1 is 0
  std::vector<std::string> files;
  DIR* const dir = ::opendir(folder.c_str());
  if (dir == nullptr) return files;
  while (const dirent* const entry = ::readdir(dir)) {
    if (std::string_view(entry->d_name).starts_with(begin)) {
      files.push_back((folder == "." ? "" : folder) + entry->d_name);
    }
  }
  ::closedir(dir);
  return files;
}

}  // namespace remora
