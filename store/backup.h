// Backups of a logged store. The backups in one directory share the files that they have in common, so each
// takes only the space and the time of the changes since the one before.
//
//   (*store)->Backup("/backups/app", /*keep=*/7);               // while it is used
//   RestoreBackup("/backups/app", 0, "/var/lib/app", now);      // the newest one, to a directory of its own
//
// Contents of a backup. A backup contains all writes up to one moment inside the call, and none after it. So
// it has every write that was acknowledged before the call, of any durability level, and each batch as a
// whole or not at all. Records keep their versions and expiries. The backup also contains the store's
// completion records (store/durable/completion_records.h).
//
// Versions of a restored store. The restored store gives no version a second time, not even one that the
// original store gave after the backup. So a condition with such a version cannot hold by mistake. The
// restored store continues its versions at 2^22 times the seconds since 1970, if that is more. Therefore the
// promise has two requirements: on the long average the original store made fewer than 4 million writes a
// second, and nobody set the clock back. Clients that were connected begin anew.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

/// Description of a backup.
struct BackupInfo {
  std::uint32_t id = 0;         // greater than the numbers of all earlier backups in the directory
  std::int64_t unix_s = 0;      // time at which it was made, in seconds since 1970
  std::uint64_t version = 0;    // the backup has all writes up to this version, and perhaps some later ones
  std::uint64_t bytes = 0;      // total size of its files
  std::uint64_t new_bytes = 0;  // size of those files that no earlier backup in the directory shares
};

/// Options of a backup that the store makes.
struct BackupRequest {
  std::uint64_t version = 0;  // version of the last write that is known to be in the backup
  /// Number of backups to keep: afterwards the call deletes all but the newest ones. 0: it deletes none.
  std::uint32_t keep = 0;
  /// Ends the backup early, with Cancelled.
  std::stop_token stop{};
};

/// Makes a directory of backups, or checks that an existing directory is one. Outcomes:
///   NotFound: its parent is missing.
///   FailedPrecondition: it contains something else, or has a format that this program does not know.
///   AlreadyExists: another process makes or reads a backup there.
///   PermissionDenied: the process may not use it.
///   Unavailable: an I/O error occurred, or the disk is full.
absl::Status PrepareBackupDir(const std::string& dir);

/// Returns the backups in a directory, the oldest first. It does not read their files: a listed backup may be
/// damaged (VerifyBackup). Outcomes:
///   NotFound: the directory is missing.
///   FailedPrecondition, PermissionDenied, Unavailable: as for PrepareBackupDir.
///   AlreadyExists: a backup is being made there.
///   DataLoss: the list of backups is damaged.
absl::StatusOr<std::vector<BackupInfo>> ListBackups(const std::string& dir);

/// Reads all files of a backup, compares them with their checksums, and returns its description. `id` 0: the
/// newest backup. Outcomes as for ListBackups, and:
///   NotFound: no backup has this number.
///   DataLoss: the backup is damaged; the message says how.
///   FailedPrecondition: its data have a format that this program does not know.
absl::StatusOr<BackupInfo> VerifyBackup(const std::string& dir, std::uint32_t id);

/// Verifies a backup and copies it to a data directory, all of it or nothing, and returns its description.
/// `id` 0: the newest backup. `unix_s`: the current time in seconds since 1970.
///
/// If `data_dir` is missing, its parent must exist. The call first writes a directory beside it whose name is
/// longer by ".restore-" and six characters. It renames that directory when the disk has all files.
///
/// If `data_dir` exists, it must be empty except for lost+found; it may be a mount point. The call first
/// writes a directory inside it whose name begins with ".restore-". Then it moves the files out of there; the
/// file that makes `data_dir` a store's directory comes last.
///
/// Outcomes as for VerifyBackup, and:
///   FailedPrecondition: `data_dir` is not empty, or not a directory.
///   Unavailable: the disk failed, or is full.
absl::StatusOr<BackupInfo> RestoreBackup(const std::string& dir, std::uint32_t id,
                                         const std::string& data_dir, std::int64_t unix_s);

}  // namespace remora
