// A directory of ours, of a store or of backups: whose it is, and that only one uses it at a time. What is in
// it is RocksDB's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

/// Number of what a store's directory holds: the marker file, and in RocksDB the keys, values and column
/// families.
inline constexpr int kDataFormat = 1;

/// The same where a commit log has a part of it (store/durable/tier_log.h). Programs that do not know the log
/// would lose that.
inline constexpr int kLoggedDataFormat = 2;

/// Number of what a directory of backups holds: the marker file, and what is noted of each backup.
inline constexpr int kBackupFormat = 1;

struct DirKind {
  std::string_view name;    // for people
  std::string_view marker;  // the marker's file name
  std::string_view text;    // what the marker begins with; then the format's number and a newline
  int format = 0;
  int logged_format = 0;  // with a commit log; 0: there is none
};
inline constexpr DirKind kStoreDir{"data directory", "REMORA", "remora-store ", kDataFormat,
                                   kLoggedDataFormat};
inline constexpr DirKind kBackupDir{"backup directory", "REMORA-BACKUPS", "remora-backups ", kBackupFormat};

/// Beside a store's marker, of which start of the machine its log files are: DataDir::NoteBoot.
inline constexpr std::string_view kBootFile = "REMORA-BOOT";

/// What the directory holds, without the lost+found that some file systems have at their top. NotFound,
/// PermissionDenied, Unavailable.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path);

/// OK: the disk has the names of the files in it. Unavailable.
absl::Status SyncDirectory(const std::string& path);

/// Held open, and locked, as long as the store is. A marker file says that the directory is a store's:
/// nothing is written to one that holds other things. The marker is empty until the first store in there was
/// made completely; then it names the format. The same for backups.
///
/// Thread Safety: none.
class DataDir {
 public:
  /// Makes the directory when it is missing. Errors as Store::Open.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(const std::string& path,
                                                       const DirKind& kind = kStoreDir);
  /// Writes nothing. Others may read it at the same time. NotFound: there is none. FailedPrecondition: it
  /// holds something else, or nothing, or has a format that this program does not know. AlreadyExists: it is
  /// in use.
  static absl::StatusOr<std::unique_ptr<DataDir>> OpenToRead(const std::string& path,
                                                             const DirKind& kind = kStoreDir);
  /// A store was put together there by others, all but its marker: makes that. Unavailable.
  static absl::Status Claim(const std::string& path);
  ~DataDir();
  DataDir(const DataDir&) = delete;
  DataDir& operator=(const DataDir&) = delete;

  const std::string& path() const { return path_; }
  /// Nothing was ever stored here.
  bool fresh() const { return fresh_; }
  /// Returns when the disk has the marker, the directory, and its name: what is synced in there later shall
  /// not go with it. Errors as Store::Open.
  absl::Status MarkComplete();
  /// Whether a commit log has a part of what is stored here.
  bool has_commit_log() const { return format_ == kind_.logged_format; }
  /// As MarkComplete; from now on, it has. REQUIRES: Open, and the kind has such a format.
  absl::Status MarkLogged();

  /// Whether the machine was not started since NoteBoot was last OK here, for whichever process. False, too,
  /// where that is not known.
  bool is_of_this_boot() const;
  /// From now on, it is. REQUIRES: Open. Errors as Store::Open.
  absl::Status NoteBoot();
  std::string boot_file() const;

 private:
  DataDir(const DirKind& kind, std::string path, int marker);

  absl::Status InUse() const;
  absl::Status LockAndReadMarker(int lock);
  /// The disk has it, and it is locked.
  absl::Status WriteMarker(int file) const;

  const DirKind& kind_;
  const std::string path_;
  const int marker_;  // descriptor
  bool fresh_ = false;
  int format_;
};

}  // namespace remora
