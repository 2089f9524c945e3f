// The file of a copy of slots (store/format/cluster/slot_copy.h): its writer, its reader, and its name.
//
//   PREFIX<move>            the source writes it, and the destination has not confirmed it
//   PREFIX<move>.confirmed  the destination has it. So the source may give the slots away at any time, and
//                           the file stays until the division, or another move, says otherwise
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/unique_fd.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot_copy.h"
#include "store/slot_transfer.h"

namespace remora {

/// Returns the slots of a header, and sets them.
ClusterSlots SlotsOfCopy(const SlotCopyHeader& header);
void SetSlots(const ClusterSlots& slots, SlotCopyHeader* header);

/// Returns a number as the text of a name, and back; 0: it is none.
std::string MoveText(std::uint64_t move);
std::uint64_t MoveIn(std::string_view text);

inline constexpr std::string_view kConfirmedSuffix = ".confirmed";

/// A whole copy, in memory.
struct SlotCopy {
  SlotCopyHeader header;
  std::string bytes;                // of the file
  std::vector<SlotRecord> records;  // those that exist; views of `bytes`
  std::uint64_t versions_end = 0;
};

/// Writes a copy. All errors are Unavailable, and final: the copy is to be dropped.
///
/// Thread safety: none.
class SlotCopyWriter {
 public:
  /// Makes the file, for its user alone. Unavailable: that fails, or it is there.
  static absl::StatusOr<std::unique_ptr<SlotCopyWriter>> Create(const std::string& path,
                                                                const SlotCopyHeader& header);
  SlotCopyWriter(const SlotCopyWriter&) = delete;
  SlotCopyWriter& operator=(const SlotCopyWriter&) = delete;

  /// Adds an entry; `record` null: the key does not exist.
  absl::Status Add(std::string_view key, const SlotRecord* record);
  /// Ends the file. `synced`: returns once the disk has it.
  absl::Status Seal(std::uint64_t versions_end, bool synced);

  /// Reads the file back, whatever its name is by now. Errors are those of ReadSlotCopy.
  absl::StatusOr<std::unique_ptr<SlotCopy>> Read() const;

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t entries() const { return entries_; }
  /// The keys that exist as of their last entry, and whether they are to expire.
  const absl::flat_hash_map<std::string, bool>& keys() const { return keys_; }

 private:
  SlotCopyWriter(std::string path, rdma::UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status Append(const SlotCopyEntry& entry, std::string_view key, std::string_view value);
  absl::Status Flush();

  const std::string path_;
  const rdma::UniqueFd file_;
  std::string buffer_;
  std::uint64_t checksum_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t entries_ = 0;
  absl::flat_hash_map<std::string, bool> keys_;
};

/// Reads a file.
///   NotFound: there is none. DataLoss: it is not whole, or damaged. Unavailable: it cannot be read.
absl::StatusOr<std::unique_ptr<SlotCopy>> ReadSlotCopy(const std::string& path);

/// Has the disk keep the bytes of a file, then gives it another name, and has the disk keep that.
/// Unavailable: the system cannot do it.
absl::Status RenameSynced(const std::string& from, const std::string& to, bool synced);
/// Removes a file, and has the disk keep that. OK, too, if there is none.
absl::Status RemoveSynced(const std::string& path);
/// Returns the paths of all files that begin with the prefix.
std::vector<std::string> FilesWithPrefix(const std::string& prefix);

}  // namespace remora
