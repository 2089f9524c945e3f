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

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/new_directory.h"
#include "store/durable/status.h"
#include "store/durable/tier.h"
#include "store/format/types/version_time.h"

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
    // A server that starts puts the marker there, and the first backup all else.
    REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(dir));
    if (names.size() == 1) return reader;
    rocksdb::BackupEngineReadOnly* engine = nullptr;
    REMORA_ASSIGN_OR_RETURN(const rocksdb::Status opened, StartThread([&] {
                              return rocksdb::BackupEngineReadOnly::Open(EngineOptions(dir),
                                                                         rocksdb::Env::Default(), &engine);
                            }));
    REMORA_RETURN_IF_ERROR(ToStatus(opened, PlaceOf(dir)));
    reader.engine_.reset(engine);
    return reader;
  }

  /// REQUIRES: Find returned OK.
  const rocksdb::BackupEngineReadOnly& engine() const { return *engine_; }
  std::vector<BackupInfo> infos() const {
    return engine_ == nullptr ? std::vector<BackupInfo>() : InfosOf(*engine_);
  }
  const std::string& dir() const { return lock_->path(); }

  /// Returns the backup with this ID. 0: the newest.
  absl::StatusOr<BackupInfo> Find(std::uint32_t id) const {
    std::vector<rocksdb::BackupID> damaged;
    if (engine_ != nullptr) engine_->GetCorruptedBackups(&damaged);
    const std::vector<BackupInfo> infos = this->infos();
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

  /// Returns the outcome of a call on a backup. `use`: for the message, behind the backup.
  absl::Status Translate(std::uint32_t id, const rocksdb::Status& status, std::string_view use = "") const {
    if (status.IsCorruption() || status.IsNotFound()) return Damaged(id, status.ToString());
    return ToStatus(status, absl::StrCat("backup ", id, " in ", dir(), AbslView(use)));
  }

 private:
  absl::Status Damaged(std::uint32_t id, std::string_view why) const {
    return absl::DataLossError(
        absl::StrCat("backup ", id, " in ", dir(),
                     " is damaged; take another one (kvctl backups lists them): ", AbslView(why)));
  }

  std::unique_ptr<DataDir> lock_;
  std::unique_ptr<rocksdb::BackupEngineReadOnly> engine_;  // null: there is no backup yet
};

absl::Status Restore(const Reader& reader, std::uint32_t id, std::int64_t unix_s, const std::string& to) {
  const rocksdb::Status restored = reader.engine().RestoreDBFromBackup(rocksdb::RestoreOptions(), id, to, to);
  REMORA_RETURN_IF_ERROR(reader.Translate(id, restored, absl::StrCat(", which is restored to ", to)));
  REMORA_RETURN_IF_ERROR(DataDir::Claim(to));
  // Opening it tests the result. Its versions continue beyond all that the store gave after the backup.
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DurableTier> tier, DurableTier::Open(to));
  tier->SetVersionLimit(std::max(FirstVersionOf(unix_s), tier->version_limit()));
  REMORA_RETURN_IF_ERROR(tier->Write());
  REMORA_RETURN_IF_ERROR(tier->Sync());
  return SyncDirectory(to);
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
  return reader.infos();
}

absl::StatusOr<BackupInfo> VerifyBackup(const std::string& dir, std::uint32_t id) {
  REMORA_ASSIGN_OR_RETURN(const Reader reader, Reader::Open(dir));
  return reader.Verified(id);
}

absl::StatusOr<BackupInfo> RestoreBackup(const std::string& dir, std::uint32_t id,
                                         const std::string& data_dir, std::int64_t unix_s) {
  BackupInfo info;
  const auto restore = [&](const std::string& made) -> absl::Status {
    REMORA_ASSIGN_OR_RETURN(const Reader reader, Reader::Open(dir));
    REMORA_ASSIGN_OR_RETURN(info, reader.Verified(id));
    // The engine's threads, which a failed restore leaves behind, end with the engine.
    return Restore(reader, info.id, unix_s, made);
  };
  REMORA_RETURN_IF_ERROR(FillNewDirectory(data_dir, kStoreDir.marker, restore));
  return info;
}

}  // namespace remora
