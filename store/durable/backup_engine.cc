// A backup consists of the tables alone, without the log files. All families are flushed together
// (atomic_flush), so the tables have exactly the writes up to one moment, including those that skipped the
// log. The caller flushes first, so that moment is after the start of its call. With the log files, a backup
// would have some of the later writes, and lack those of them that skipped the log.
//
// RocksDB's BackupEngine manages the directory. Backups share tables, which never change, and whose names
// are used once. Each backup has a file that lists its tables with their checksums. The engine renames this
// file into place last. So an unfinished backup does not exist, and does no harm to the others.
#include "store/durable/backup_engine.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/utilities/backup_engine.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/status.h"
#include "store/durable/tier.h"
#include "store/format/memory/layout.h"

namespace remora {
namespace {

// Each backup has a note: this text, the format of the data, a blank, and the version.
constexpr std::string_view kNote = "remora-data ";

std::string NoteOf(const BackupRequest& request) {
  return absl::StrCat(AbslView(kNote), kDataFormat, " ", request.version);
}

/// Parses the note of a backup. Returns false if no store wrote it.
bool ReadNote(std::string_view note, int* format, std::uint64_t* version) {
  if (!note.starts_with(kNote)) return false;
  const char* const end = note.data() + note.size();
  const auto first = std::from_chars(note.data() + kNote.size(), end, *format);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ') return false;
  const auto second = std::from_chars(first.ptr + 1, end, *version);
  return second.ec == std::errc() && second.ptr == end;
}

rocksdb::BackupEngineOptions EngineOptions(const std::string& dir) {
  rocksdb::BackupEngineOptions options(dir);
  options.backup_log_files = false;
  options.sync = true;
  return options;
}

std::string PlaceOf(const std::string& dir) { return absl::StrCat(AbslView(kBackupDir.name), " ", dir); }

/// Returns the backups in the directory, oldest first. new_bytes are those of files that no older one has.
template <typename Engine>
std::vector<BackupInfo> InfosOf(const Engine& engine) {
  std::vector<rocksdb::BackupInfo> theirs;
  engine.GetBackupInfo(&theirs, /*include_file_details=*/true);
  std::sort(theirs.begin(), theirs.end(),
            [](const auto& one, const auto& other) { return one.backup_id < other.backup_id; });
  std::vector<BackupInfo> infos;
  std::set<std::string> files;
  for (const rocksdb::BackupInfo& their : theirs) {
    BackupInfo& info = infos.emplace_back();
    info.id = their.backup_id;
    info.unix_s = their.timestamp;
    info.bytes = their.size;
    int format = 0;
    ReadNote(their.app_metadata, &format, &info.version);
    for (const rocksdb::BackupFileInfo& file : their.file_details) {
      const auto [known, is_new] = files.insert(file.relative_filename);
      if (is_new) info.new_bytes += file.size;
    }
  }
  return infos;
}

/// Reads a backup directory, and locks it against changes meanwhile.
class Reader {
 public:
  static absl::StatusOr<Reader> Open(const std::string& dir) {
    Reader reader;
    REMORA_ASSIGN_OR_RETURN(reader.lock_, DataDir::OpenToRead(dir, kBackupDir));
    rocksdb::BackupEngineReadOnly* engine = nullptr;
    REMORA_ASSIGN_OR_RETURN(const rocksdb::Status opened, StartThread([&] {
                              return rocksdb::BackupEngineReadOnly::Open(EngineOptions(dir),
                                                                         rocksdb::Env::Default(), &engine);
                            }));
    REMORA_RETURN_IF_ERROR(ToStatus(opened, PlaceOf(dir)));
    reader.engine_.reset(engine);
    return reader;
  }

  const rocksdb::BackupEngineReadOnly& engine() const { return *engine_; }
  const std::string& dir() const { return lock_->path(); }

  /// Returns the backup with this ID. 0: the newest.
  absl::StatusOr<BackupInfo> Find(std::uint32_t id) const {
    std::vector<rocksdb::BackupID> damaged;
    engine_->GetCorruptedBackups(&damaged);
    const std::vector<BackupInfo> infos = InfosOf(*engine_);
    // The newest backup may be damaged. Then report that, rather than return the one before.
    if (id == 0) {
      for (const BackupInfo& info : infos) id = std::max(id, info.id);
      for (const rocksdb::BackupID other : damaged) id = std::max(id, other);
    }
    if (std::find(damaged.begin(), damaged.end(), id) != damaged.end()) {
      return Damaged(id, "files of it are missing, or have another size");
    }
    for (const BackupInfo& info : infos) {
      if (info.id == id) return info;
    }
    return absl::NotFoundError(id == 0 ? absl::StrCat(PlaceOf(dir()), " holds no backup yet")
                                       : absl::StrCat(PlaceOf(dir()), " holds no backup ", id));
  }

  absl::StatusOr<BackupInfo> Verified(std::uint32_t id) const {
    REMORA_ASSIGN_OR_RETURN(const BackupInfo info, Find(id));
    rocksdb::BackupInfo their;
    REMORA_RETURN_IF_ERROR(Translate(info.id, engine_->GetBackupInfo(info.id, &their)));
    int format = 0;
    std::uint64_t version = 0;
    if (!ReadNote(their.app_metadata, &format, &version)) {
      return Damaged(info.id, "its description was not written by a store");
    }
    if (format != kDataFormat) {
      return absl::FailedPreconditionError(
          absl::StrCat("verify: backup ", info.id, " in ", dir(), " holds data of format ", format,
                       "; this program knows format ", kDataFormat,
                       ". Use the version of the program that wrote it, or a newer one"));
    }
    REMORA_RETURN_IF_ERROR(Translate(info.id, engine_->VerifyBackup(info.id, /*verify_with_checksum=*/true)));
    REMORA_RETURN_IF_ERROR(CheckTableFormats(info.id));
    return info;
  }

  /// Returns FailedPrecondition if a newer RocksDB wrote a table that this one cannot read.
  absl::Status CheckTableFormats(std::uint32_t id) const {
    rocksdb::BackupInfo their;
    REMORA_RETURN_IF_ERROR(Translate(id, engine_->GetBackupInfo(id, &their, /*include_file_details=*/true)));
    for (const rocksdb::BackupFileInfo& file : their.file_details) {
      if (!file.relative_filename.ends_with(".sst")) continue;
      rocksdb::SstFileReader table(rocksdb::Options{});
      const rocksdb::Status status = table.Open(absl::StrCat(dir(), "/", file.relative_filename));
      if (!status.ok()) return ToStatus(status, absl::StrCat("backup ", id, " in ", dir()));
    }
    return absl::OkStatus();
  }

  absl::Status Translate(std::uint32_t id, const rocksdb::Status& status) const {
    if (status.IsCorruption() || status.IsNotFound()) return Damaged(id, status.ToString());
    return ToStatus(status, absl::StrCat("backup ", id, " in ", dir()));
  }

 private:
  absl::Status Damaged(std::uint32_t id, std::string_view why) const {
    return absl::DataLossError(
        absl::StrCat("backup ", id, " in ", dir(),
                     " is damaged; take another one (kvctl backups lists them): ", AbslView(why)));
  }

  std::unique_ptr<DataDir> lock_;
  std::unique_ptr<rocksdb::BackupEngineReadOnly> engine_;
};

/// Returns the version at which a restored store continues, unless its own are higher (store/backup.h).
std::uint64_t FirstRestoredVersion(std::int64_t unix_s) {
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(unix_s, 0, kMaxVersion >> 22)) << 22;
}

absl::Status Restore(const Reader& reader, std::uint32_t id, std::int64_t unix_s, const std::string& to) {
  REMORA_RETURN_IF_ERROR(
      reader.Translate(id, reader.engine().RestoreDBFromBackup(rocksdb::RestoreOptions(), id, to, to)));
  REMORA_RETURN_IF_ERROR(DataDir::Claim(to));
  // Opening it tests the result. Its versions continue beyond all that the store gave after the backup.
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DurableTier> tier, DurableTier::Open(to));
  tier->SetVersionLimit(std::max(FirstRestoredVersion(unix_s), tier->version_limit()));
  REMORA_RETURN_IF_ERROR(tier->Write());
  REMORA_RETURN_IF_ERROR(tier->Sync());
  return SyncDirectory(to);
}

absl::Status Errno(const std::string& what) {
  const int error = errno;
  if (error == ENOENT || error == EACCES) return absl::ErrnoToStatus(error, what);
  return MarkedByErrno(error, absl::UnavailableError(absl::ErrnoToStatus(error, what).message()));
}

absl::Status IsNotEmpty(const std::string& data_dir) {
  return absl::FailedPreconditionError(absl::StrCat(
      "restore: ", data_dir, " is not empty; name a new or an empty directory. Nothing in it was touched"));
}

/// Returns true if the directory exists and is empty, false if it does not exist. FailedPrecondition: it is
/// not empty, or no directory.
absl::StatusOr<bool> IsThere(const std::string& data_dir) {
  struct stat status;
  if (lstat(data_dir.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    return Errno(absl::StrCat("cannot look at ", data_dir));
  }
  if (stat(data_dir.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("restore: ", data_dir, " is not a directory; name a new or an empty directory"));
  }
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(data_dir));
  if (!names.empty()) return IsNotEmpty(data_dir);
  return true;
}

/// Restores a backup into a new directory, and sets *made to its path, also if it fails after it has made
/// that directory. After the return no thread writes there: the engine's threads, which a failed restore
/// leaves behind, end with the engine.
absl::StatusOr<BackupInfo> RestoreApart(const std::string& dir, std::uint32_t id, std::int64_t unix_s,
                                        const std::string& path, bool is_there, std::string* made) {
  REMORA_ASSIGN_OR_RETURN(const Reader reader, Reader::Open(dir));
  // If `path` exists, work within it: it may be on another file system than its parent, or the parent may
  // not be writable.
  std::string name = absl::StrCat(path, is_there ? "/" : "", ".restore-XXXXXX");
  if (mkdtemp(name.data()) == nullptr) return Errno(absl::StrCat("cannot make ", name));
  *made = name;
  if (is_there) {
    REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
    if (names.size() > 1) return IsNotEmpty(path);  // another process has put something there meanwhile
  }
  REMORA_ASSIGN_OR_RETURN(const BackupInfo info, reader.Verified(id));
  REMORA_RETURN_IF_ERROR(Restore(reader, info.id, unix_s, name));
  return info;
}

/// Returns the directory that contains `path`.
std::string ParentOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// Renames `made` to `path`. If another process has made something at `path` meanwhile, replaces it only if
/// it is an empty directory.
absl::Status MoveTo(const std::string& path, const std::string& made) {
  if (std::rename(made.c_str(), path.c_str()) != 0) {
    return Errno(absl::StrCat("cannot rename ", made, " to ", path));
  }
  return SyncDirectory(ParentOf(path));
}

/// Moves the files in `made` to `path`, the marker last: without it, no program takes the files for a store.
absl::Status MoveNamesInto(const std::string& path, const std::string& made, std::vector<std::string> names) {
  std::partition(names.begin(), names.end(),
                 [](const std::string& name) { return name != kStoreDir.marker; });
  for (const std::string& name : names) {
    if (name == kStoreDir.marker) REMORA_RETURN_IF_ERROR(SyncDirectory(path));
    const std::string to = absl::StrCat(path, "/", name);
    if (std::rename(absl::StrCat(made, "/", name).c_str(), to.c_str()) != 0) {
      return Errno(absl::StrCat("cannot rename to ", to));
    }
  }
  rmdir(made.c_str());
  return SyncDirectory(path);
}

absl::Status MoveInto(const std::string& path, const std::string& made) {
  // Other users of the machine may not read the data. If another user owns the directory, chmod fails, and
  // the owner's mode stays.
  [[maybe_unused]] const int changed = chmod(path.c_str(), 0700);
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(made));
  absl::Status moved = MoveNamesInto(path, made, names);
  if (moved.ok()) return moved;
  std::error_code ignored;
  for (const std::string& name : names) std::filesystem::remove_all(absl::StrCat(path, "/", name), ignored);
  return moved;
}

}  // namespace

absl::Status PrepareBackupDir(const std::string& dir) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> lock, DataDir::Open(dir, kBackupDir));
  return lock->fresh() ? lock->MarkComplete() : absl::OkStatus();
}

absl::StatusOr<BackupInfo> CreateBackup(rocksdb::DB& db, std::string_view place, const std::string& dir,
                                        const BackupRequest& request) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> lock, DataDir::Open(dir, kBackupDir));
  if (lock->fresh()) REMORA_RETURN_IF_ERROR(lock->MarkComplete());
  const auto translate = [&](const rocksdb::Status& status) {
    if (status.IsIncomplete())
      return absl::CancelledError("backup: it was stopped; those before it are good");
    return ToStatus(status, absl::StrCat("a backup of ", AbslView(place), " to ", dir));
  };
  rocksdb::BackupEngine* opened = nullptr;
  REMORA_ASSIGN_OR_RETURN(const rocksdb::Status status, StartThread([&] {
                            return rocksdb::BackupEngine::Open(EngineOptions(dir), rocksdb::Env::Default(),
                                                               &opened);
                          }));
  REMORA_RETURN_IF_ERROR(translate(status));
  const std::unique_ptr<rocksdb::BackupEngine> engine(opened);
  const std::stop_callback stop(request.stop, [&] { engine->StopBackup(); });
  rocksdb::CreateBackupOptions options;
  options.decrease_background_thread_cpu_priority = true;  // clients' requests come first
  options.background_thread_cpu_priority = rocksdb::CpuPriority::kLow;
  rocksdb::BackupID id = 0;
  REMORA_RETURN_IF_ERROR(translate(engine->CreateNewBackupWithMetadata(options, &db, NoteOf(request), &id)));
  const std::vector<BackupInfo> infos = InfosOf(*engine);
  // Purge only after a success: a failed backup deletes no older one.
  if (request.keep > 0) REMORA_RETURN_IF_ERROR(translate(engine->PurgeOldBackups(request.keep)));
  if (infos.empty() || infos.back().id != id) {
    return absl::InternalError(absl::StrCat("backup: backup ", id, " was made, and is not there"));
  }
  return infos.back();
}

absl::StatusOr<std::vector<BackupInfo>> ListBackups(const std::string& dir) {
  REMORA_ASSIGN_OR_RETURN(const Reader reader, Reader::Open(dir));
  return InfosOf(reader.engine());
}

absl::StatusOr<BackupInfo> VerifyBackup(const std::string& dir, std::uint32_t id) {
  REMORA_ASSIGN_OR_RETURN(const Reader reader, Reader::Open(dir));
  return reader.Verified(id);
}

absl::StatusOr<BackupInfo> RestoreBackup(const std::string& dir, std::uint32_t id,
                                         const std::string& data_dir, std::int64_t unix_s) {
  std::string path = data_dir;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  REMORA_ASSIGN_OR_RETURN(const bool is_there, IsThere(path));
  std::string made;
  absl::StatusOr<BackupInfo> info = RestoreApart(dir, id, unix_s, path, is_there, &made);
  if (info.ok()) {
    const absl::Status moved = is_there ? MoveInto(path, made) : MoveTo(path, made);
    if (!moved.ok()) info = moved;
  }
  std::error_code ignored;
  if (!info.ok() && !made.empty()) std::filesystem::remove_all(made, ignored);
  return info;
}

}  // namespace remora
