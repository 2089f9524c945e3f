// A directory of a store or of backups: its marker file, and the lock that admits one user at a time.
// The other files in it belong to RocksDB and the commit log.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// Format of a data directory: its marker file, and the keys, values and column families in RocksDB.
inline constexpr int kDataFormat = 1;

/// Format of a data directory with a commit log (store/durable/tier_log/tier_log.h). A program that does not
/// know the log would lose the writes that only the log has.
inline constexpr int kLoggedDataFormat = 2;

/// Format of a backup directory: its marker file, and the note that each backup has.
inline constexpr int kBackupFormat = 1;

struct DirKind {
  std::string_view name;    // for messages
  std::string_view marker;  // name of the marker file
  std::string_view text;    // first part of the marker; the format's number and a newline follow
  int format = 0;
  int logged_format = 0;  // format with a commit log; 0: there is no such format
};
inline constexpr DirKind kStoreDir{"data directory", "REMORA", "remora-store ", kDataFormat,
                                   kLoggedDataFormat};
inline constexpr DirKind kBackupDir{"backup directory", "REMORA-BACKUPS", "remora-backups ", kBackupFormat};

/// File beside a store's marker with the boot_id of the machine at the last DataDir::NoteBoot.
inline constexpr std::string_view kBootFile = "REMORA-BOOT";

/// File beside a store's marker with the identity of its shard, and a newline. No file: it has none.
inline constexpr std::string_view kShardFile = "REMORA-SHARD";

/// Returns the names in the directory, without the lost+found that some file systems have at their top.
///
/// - NotFound, PermissionDenied, Unavailable: the directory cannot be listed.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path);

/// Waits until the disk has the names of the files in the directory.
///
/// - NotFound, PermissionDenied, Unavailable: the directory cannot be opened or synced.
absl::Status SyncDirectory(const std::string& path);

/// Keeps the directory open and locked as long as it exists. A marker file says that the directory
/// belongs to a store, or to backups. If a directory has other files and no marker, nothing is written
/// to it. The marker is empty until the first store in the directory is completely made; then it names
/// the format.
///
/// Thread safety: none.
class DataDir {
 public:
  /// Opens the directory to write, and makes it if it is missing. Errors are those of Store::Open.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(const std::string& path,
                                                       const DirKind& kind = kStoreDir);
  /// Opens the directory to read, and writes nothing. Other processes may read it at the same time.
  ///
  /// - NotFound: the directory does not exist.
  /// - FailedPrecondition: it has other content or none, or a format that this program does not know.
  /// - AlreadyExists: another process uses it.
  /// - PermissionDenied, Unavailable: the marker cannot be read.
  static absl::StatusOr<std::unique_ptr<DataDir>> OpenToRead(const std::string& path,
                                                             const DirKind& kind = kStoreDir);
  /// Returns the failure that Open would have even if no other process used the directory, as far as that is
  /// known without a change to it, and that of CheckShard. Otherwise an object that has no lock, or null: the
  /// directory has no marker yet.
  static absl::StatusOr<std::unique_ptr<DataDir>> Examine(const std::string& path, const DirKind& kind,
                                                          const ShardIdentity& shard);
  /// Makes the marker of a data directory. REQUIRES: the caller has put all other files of a store there.
  ///
  /// - NotFound, PermissionDenied, Unavailable: the marker cannot be made, or exists.
  static absl::Status Claim(const std::string& path);
  ~DataDir();
  DataDir(const DataDir&) = delete;
  DataDir& operator=(const DataDir&) = delete;

  const std::string& path() const { return path_; }
  /// Returns whether no store was ever completely made here.
  bool fresh() const { return fresh_; }
  /// Writes the marker. Waits until the disk has the marker, the directory and its name, so that data
  /// synced later in the directory cannot lose its directory. Errors are those of Store::Open.
  absl::Status MarkComplete();
  /// Returns whether a commit log has a part of the data.
  bool has_commit_log() const { return format_ == kind_.logged_format; }
  /// Writes a marker that says that there is a commit log; otherwise like MarkComplete. REQUIRES: the
  /// object is from Open, and the kind has a format with a log.
  absl::Status MarkLogged();

  /// Returns whether the machine has not been restarted since the last successful NoteBoot here, by any
  /// process. Returns false if that is unknown.
  bool is_of_this_boot() const;
  /// Makes is_of_this_boot true until the machine is restarted, if the system tells its boot_id.
  /// REQUIRES: the object is from Open. Errors are those of Store::Open.
  absl::Status NoteBoot();
  std::string boot_file() const;

  /// Checks that the directory keeps this identity or none, unless it is all zeros
  /// (store/format/cluster/shard_identity.h, N3).
  ///
  /// - FailedPrecondition: it keeps another one, or the file is damaged.
  /// - PermissionDenied, Unavailable: the file cannot be read.
  absl::Status CheckShard(const ShardIdentity& shard) const;
  /// Has the directory keep this identity, unless it is all zeros. Waits until the disk has it. REQUIRES: the
  /// object is from Open, and CheckShard returned OK. Errors are those of Store::Open.
  absl::Status NoteShard(const ShardIdentity& shard);

 private:
  DataDir(const DirKind& kind, std::string path, int marker);

  absl::Status InUse() const;
  /// Returns the bytes of the shard's file, or nullopt if there is none.
  absl::StatusOr<std::optional<std::string>> ReadShard() const;
  absl::Status LockAndReadMarker(int lock);
  absl::Status ReadMarker();
  /// Writes the marker into `file`, syncs it and locks it.
  absl::Status WriteMarker(int file) const;

  const DirKind& kind_;
  const std::string path_;
  const int marker_;  // descriptor
  bool fresh_ = false;
  int format_;
};

}  // namespace remora
