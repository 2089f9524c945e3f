// Backups of what a logged store holds: a directory of them, which share the files that they have in common,
// so that each takes the space, and the time, of what has changed since the one before.
//
//   (*store)->Backup("/backups/app", /*keep=*/7);               // while it is used
//   RestoreBackup("/backups/app", 0, "/var/lib/app", now);      // the newest one, to a directory of its own
//
// What a backup holds: all that had been written up to one moment, and nothing of what came later. That
// moment lies inside the call, so everything is in it that was acknowledged before, with whatever durability;
// of each batch all or nothing; with its version and its expiry; and what the store remembers of its clients.
//
// What a restored store promises. It gives no version that the store had given, also behind the backup's
// moment (so a condition that names a version of then does not hold by mistake), as long as fewer than 4
// million writes a second were made, on the long average, and the clock was not set back: its versions go on
// at 2^22 times the seconds since 1970, if that is more. Clients that were connected begin anew.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

struct BackupInfo {
  std::uint32_t id = 0;         // greater than those of all earlier ones in the directory
  std::int64_t unix_s = 0;      // when it was made
  std::uint64_t version = 0;    // all writes up to this one are in it, and perhaps some later ones
  std::uint64_t bytes = 0;      // of all its files
  std::uint64_t new_bytes = 0;  // of those which no earlier backup that is there has
};

struct BackupRequest {
  std::uint64_t version = 0;  // of the last write that is known to be in it
  /// Then older ones are deleted, but so many of the newest. 0: none are.
  std::uint32_t keep = 0;
  /// Ends it early, with Cancelled.
  std::stop_token stop{};
};

/// Makes the directory, if it is missing, or sees that it is one of backups. NotFound: its parent is missing.
/// FailedPrecondition: it holds something else, or has a format that this program does not know.
/// PermissionDenied, Unavailable. AlreadyExists: another process makes or reads one.
absl::Status PrepareBackupDir(const std::string& dir);

/// The oldest first. NotFound, FailedPrecondition, AlreadyExists (one is being made), PermissionDenied;
/// DataLoss: what says which there are is damaged. Each may be damaged itself: see VerifyBackup.
absl::StatusOr<std::vector<BackupInfo>> ListBackups(const std::string& dir);

/// Reads all files of a backup and compares them with their checksums. `id` 0: the newest. Errors as
/// ListBackups. NotFound: there is none of this number. DataLoss: it is damaged, and how.
absl::StatusOr<BackupInfo> VerifyBackup(const std::string& dir, std::uint32_t id);

/// Copies a backup, verified, to a data directory, all of it or nothing. If `data_dir` is missing, it is put
/// together beside that, in a directory of the same name with ".restore-" and six characters more, which is
/// renamed when the disk has it; the parent must exist. If `data_dir` is there, it must be empty but for a
/// lost+found, and may be a mount point: it is put together in a directory ".restore-" in there, and its
/// files are then moved, the one that makes it a store's last. `id` 0: the newest. Errors as VerifyBackup,
/// and FailedPrecondition: data_dir is not empty, or no directory. Unavailable: the disk is full, or fails.
/// `unix_s`: the time.
absl::StatusOr<BackupInfo> RestoreBackup(const std::string& dir, std::uint32_t id,
                                         const std::string& data_dir, std::int64_t unix_s);

}  // namespace remora
