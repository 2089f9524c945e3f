// A backup is the tables alone, without the log files. All families are flushed together (atomic_flush), so
// what is in tables is exactly the writes up to one moment, those that skipped the log too; and a flush comes
// before the files are listed, so that moment lies behind the beginning of the call. With the log files, a
// backup would hold some of the writes behind that moment, and miss those among them that skipped the log.
//
// The directory is RocksDB's BackupEngine's: tables, which never change, are shared, each under a name that
// is given once; each backup has a file of its own that names its tables, with their checksums, and is
// renamed to its place last. So a backup that was not finished is none, and does no harm to the others.
#include "store/durable_backup.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/utilities/backup_engine.h>
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
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/data_dir.h"
#include "store/durable_status.h"
#include "store/durable_tier.h"
#include "store/format/layout.h"

namespace remora {
namespace {

// What is noted of each backup: this, the format of the data, a blank, and the version.
constexpr std::string_view kNote = "remora-data ";

std::string NoteOf(const BackupRequest& request) {
  return absl::StrCat(AbslView(kNote), kDataFormat, " ", request.version);
}

/// False: it is none of ours.
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

/// Those in the directory, the oldest first, and which bytes each brought along.
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

/// What is to be read of a directory of backups, while nobody changes it.
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

  /// `id` 0: the newest.
  absl::StatusOr<BackupInfo> Find(std::uint32_t id) const {
    std::vector<rocksdb::BackupID> damaged;
    engine_->GetCorruptedBackups(&damaged);
    const std::vector<BackupInfo> infos = InfosOf(*engine_);
    // The newest one may be damaged: nobody shall take the one before for it.
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
      return Damaged(info.id, "what is noted of it is no note of a store's");
    }
    if (format != kDataFormat) {
      return absl::FailedPreconditionError(absl::StrCat(
          "backup ", info.id, " in ", dir(), " holds data of format ", format, "; this program knows format ",
          kDataFormat, ". Use the version of the program that wrote it, or a newer one"));
    }
    REMORA_RETURN_IF_ERROR(Translate(info.id, engine_->VerifyBackup(info.id, /*verify_with_checksum=*/true)));
    REMORA_RETURN_IF_ERROR(CheckTableFormats(info.id));
    return info;
  }

  /// A newer RocksDB may have written tables that this one does not read.
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

/// Versions of a restored store begin there, if it has not come so far (store/backup.h).
std::uint64_t FirstRestoredVersion(std::int64_t unix_s) {
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(unix_s, 0, kMaxVersion >> 22)) << 22;
}

absl::Status Restore(const Reader& reader, std::uint32_t id, std::int64_t unix_s, const std::string& to) {
  REMORA_RETURN_IF_ERROR(
      reader.Translate(id, reader.engine().RestoreDBFromBackup(rocksdb::RestoreOptions(), id, to, to)));
  REMORA_RETURN_IF_ERROR(DataDir::Claim(to));
  // It opens; and its versions go on beyond all that were given behind the backup's moment.
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DurableTier> tier, DurableTier::Open(to));
  tier->SetVersionLimit(std::max(FirstRestoredVersion(unix_s), tier->version_limit()));
  REMORA_RETURN_IF_ERROR(tier->Write());
  REMORA_RETURN_IF_ERROR(tier->Sync());
  return SyncDirectory(to);
}

absl::Status Errno(const std::string& what) {
  const int error = errno;
  if (error == ENOENT || error == EACCES) return absl::ErrnoToStatus(error, what);
  return absl::UnavailableError(absl::ErrnoToStatus(error, what).message());
}

/// `*beside`: where it is then, or was begun; empty: nothing was. When this has returned, nobody writes there
/// any more: a restore that fails leaves threads of the engine's behind, which end with it.
absl::StatusOr<BackupInfo> RestoreBeside(const std::string& dir, std::uint32_t id, std::int64_t unix_s,
                                         const std::string& path, std::string* beside) {
  REMORA_ASSIGN_OR_RETURN(const Reader reader, Reader::Open(dir));
  REMORA_ASSIGN_OR_RETURN(const BackupInfo info, reader.Verified(id));
  std::string made = absl::StrCat(path, ".restore-XXXXXX");
  if (mkdtemp(made.data()) == nullptr) return Errno(absl::StrCat("cannot make ", made));
  *beside = made;
  REMORA_RETURN_IF_ERROR(Restore(reader, info.id, unix_s, made));
  return info;
}

/// The directory that a path's last name stands in.
std::string ParentOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

absl::Status CheckIsFree(const std::string& data_dir) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(data_dir, error);
  if (is_there &&
      !(std::filesystem::is_directory(data_dir, error) && std::filesystem::is_empty(data_dir, error))) {
    return absl::FailedPreconditionError(
        absl::StrCat(data_dir, " is not empty; name a new or an empty directory. Nothing in it was touched"));
  }
  return absl::OkStatus();
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
      return absl::CancelledError("the backup was stopped; those before it are good");
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
  options.flush_before_backup = true;
  options.decrease_background_thread_cpu_priority = true;  // whoever is served comes first
  options.background_thread_cpu_priority = rocksdb::CpuPriority::kLow;
  rocksdb::BackupID id = 0;
  REMORA_RETURN_IF_ERROR(translate(engine->CreateNewBackupWithMetadata(options, &db, NoteOf(request), &id)));
  const std::vector<BackupInfo> infos = InfosOf(*engine);
  // Only when there is one more: a backup that failed costs none of those before it.
  if (request.keep > 0) REMORA_RETURN_IF_ERROR(translate(engine->PurgeOldBackups(request.keep)));
  if (infos.empty() || infos.back().id != id) {
    return absl::InternalError(absl::StrCat("backup ", id, " was made, and is not there"));
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
  REMORA_RETURN_IF_ERROR(CheckIsFree(path));
  std::string beside;
  const absl::StatusOr<BackupInfo> info = RestoreBeside(dir, id, unix_s, path, &beside);
  absl::Status status = info.status();
  // In the place of an empty directory, too; of nothing else.
  if (status.ok() && std::rename(beside.c_str(), path.c_str()) != 0) {
    status = Errno(absl::StrCat("cannot rename ", beside, " to ", path));
  }
  if (!status.ok()) {
    std::error_code ignored;
    if (!beside.empty()) std::filesystem::remove_all(beside, ignored);
    return status;
  }
  REMORA_RETURN_IF_ERROR(SyncDirectory(ParentOf(path)));
  return info;
}

}  // namespace remora
