// A copy of another machine's store that comes into a data directory, beside the data that are there, and
// then takes their place (store_copy.h is the other side).
//
//   DIR/REMORA-COPY/        the files of the copy; a data directory of its own once they have all come
//   DIR/REMORA-COPY-GROUPS  the groups that were written since: number and size, 8 bytes each, and bytes
//   DIR/REMORA-COPY-STATE   "accepted", then "replaces" and the names of the copy's files
//
//   Begin, files and groups, End ──AcceptCopy──▶ accepted ──next start: InstallCopy──▶ replaces ──▶ done
//
//   V3  Until the state says "replaces", the data in the directory stay as they are. A start that finds a
//       copy without a state leaves it aside. So a copy takes the place of data only as a whole, and once it
//       is accepted.
//   V4  Once the state says "replaces", each start first goes on with that, whichever step came last. So
//       nothing reads a mixture of two stores.
//   V5  A file of the copy has the bytes that its checksum is for, and is on the disk, before the next one
//       begins. The store of the copy was opened, and has applied its groups, before the state says
//       "replaces".
//   V6  The copy has the number of its last group, so it goes on with the next one. It has no file of the
//       member's life: the data that acknowledged in that life are gone.
//   V7  A copy goes on from the tables of an earlier one that was not whole. One counts only if its name,
//       size and checksum are those of the primary's table, by the bytes that are on the disk now. All else
//       of the earlier copy is removed: its groups, its half of a table, and tables that the new one does not
//       have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

/// Writes the files of a copy.
///
/// Thread safety: none. It waits for the disk.
class IncomingCopy {
 public:
  /// Begins a copy of so many bytes. Tables of an earlier one that was not accepted stay, for Keep, unless
  /// the disk has no space beside them.
  ///
  /// - ResourceExhausted: the disk has no space for it beside the data that are there.
  /// - Unavailable, PermissionDenied: the disk fails, or the directory cannot be written.
  static absl::StatusOr<std::unique_ptr<IncomingCopy>> Begin(std::string data_dir, std::uint64_t bytes);
  ~IncomingCopy();
  IncomingCopy(const IncomingCopy&) = delete;
  IncomingCopy& operator=(const IncomingCopy&) = delete;

  /// Returns how many tables of an earlier copy are there.
  std::size_t earlier() const { return earlier_.size(); }

  // Errors of all: InvalidArgument: the sender breaks the protocol; the message says how. ResourceExhausted,
  // Unavailable, PermissionDenied: as for Begin.

  /// Returns whether an earlier copy has brought this table. Then it is a file of this one, and need not
  /// come. Reads all of it. `checksum`: that of NextCopyChecksum, in parts of kCopyPart.
  absl::StatusOr<bool> Keep(std::string_view name, std::uint64_t size, std::uint64_t checksum);
  absl::Status BeginFile(std::string_view name, std::uint64_t size);
  absl::Status Write(std::span<const std::byte> bytes);
  /// DataLoss: the bytes are not those of the checksum, which NextCopyChecksum has of each Write in turn.
  absl::Status EndFile(std::uint64_t checksum);
  /// Takes a part of a group of `size` bytes. Groups come in the order of their numbers.
  absl::Status AddGroup(std::uint64_t number, std::uint64_t size, std::uint64_t offset,
                        std::span<const std::byte> bytes);
  /// Adds a file of the server's with this text, and waits until the disk has the whole copy. `files`: how
  /// many came, or were kept.
  absl::Status End(std::uint64_t files, std::string_view name, std::string_view text);

 private:
  explicit IncomingCopy(std::string data_dir) : data_dir_(std::move(data_dir)) {}
  /// Finds the tables of an earlier copy, and removes all else of it.
  absl::Status TakeUp();
  absl::Status CheckSpace(std::uint64_t bytes);
  absl::Status WriteTo(int file, std::span<const std::byte> bytes, const std::string& path);
  std::string PathOf(std::string_view name) const;

  const std::string data_dir_;
  int groups_ = -1;  // descriptor
  int file_ = -1;    // descriptor of the file that comes
  std::string name_{};
  std::uint64_t left_ = 0;  // bytes of the file that have not come
  std::uint64_t checksum_ = 0;
  std::uint64_t unsynced_ = 0;                    // bytes
  std::set<std::string, std::less<>> earlier_{};  // tables of an earlier copy that this one has not kept
  std::uint64_t files_ = 0;                       // that have come, or were kept
  std::uint64_t number_ = 0;                      // of the group that comes, or came last
  std::uint64_t group_left_ = 0;
};

/// Removes a copy that was not accepted. Does nothing where there is none.
void RemoveIncomingCopy(const std::string& data_dir);

/// Has the next InstallCopy put the copy in the place of the data. Waits until the disk knows. REQUIRES:
/// IncomingCopy::End was OK, and no other copy has begun since.
///
/// - PermissionDenied, Unavailable: the state cannot be written; it is as before.
absl::Status AcceptCopy(const std::string& data_dir);

enum class InstalledCopy : std::uint8_t {
  kNone = 1,  // there was none
  kPart,      // there is one that is not whole, or was not accepted; nothing was done
  kReplaced,  // it has taken the place of the data
};

/// Puts an accepted copy in the place of the data, or goes on with that. `commit_log_bytes`: as for the store
/// that opens it then. Call it before anything else reads the directory. It may take as long as to apply the
/// groups.
///
/// - AlreadyExists: another process uses the directory.
/// - Aborted: the copy cannot be opened: it is damaged, or the disk is full. It was removed, and the data
///   are as they were.
/// - DataLoss: the state is damaged.
/// - Unavailable, PermissionDenied, ResourceExhausted: the disk fails. The next call goes on.
///
/// `between` is called behind each step. If it returns an error, the call ends with that, as a crash would
/// end it.
absl::StatusOr<InstalledCopy> InstallCopy(
    const std::string& data_dir, std::uint64_t commit_log_bytes,
    const std::function<absl::Status()>& between = [] { return absl::OkStatus(); });

}  // namespace remora
