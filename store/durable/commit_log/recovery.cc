#include "store/durable/commit_log/recovery.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/durable/commit_log/log_reader.h"
#include "store/durable/data_dir.h"
#include "store/durable/status.h"

namespace remora {
namespace {

std::string PathOf(const std::string& dir, const LogFileInfo& file) {
  return absl::StrCat(dir, "/", LogFileName(file.first));
}

absl::Status Damaged(const std::string& dir, Lsn at, std::string_view why) {
  return DamagedStatus(absl::StrCat("commit log in ", dir),
                       absl::StrCat("at LSN ", at.value, ": ", std::string(why)));
}

/// Damage at the end of what recovery has found.
absl::Status DamagedBehind(const std::string& dir, const RecoveredLog& log, std::string_view why) {
  const LogFileInfo& file = log.held.back();
  return DamagedStatus(
      absl::StrCat("commit log in ", dir),
      absl::StrCat(PathOf(dir, file), ", from byte ", log.end - file.first, " on: ", AbslView(why)));
}

absl::Status Remove(const std::string& dir, const LogFileInfo& file) {
  const std::string path = PathOf(dir, file);
  return unlink(path.c_str()) == 0 ? absl::OkStatus() : LogErrnoStatus("remove", path, errno);
}

bool IsComplete(const LogFileInfo& file) {
  return file.size >= kMinLogFileSize && file.size <= kMaxLogFileSize && file.size % kLogFileUnit == 0;
}

/// Returns the longest run of files at the end of the log in which each begins where the one before
/// it ends. The other files are useless: the process died while it made one, or the machine failed
/// while it removed one. Unless `read_only`, removes incomplete files at the end. Adds the files before
/// the run to `before_gap`.
absl::StatusOr<std::vector<LogFileInfo>> RunOfFiles(const std::string& dir, bool read_only,
                                                    std::vector<LogFileInfo>* before_gap) {
  REMORA_ASSIGN_OR_RETURN(std::vector<LogFileInfo> files, ListLogFiles(dir));
  while (!files.empty() && !IsComplete(files.back())) {
    if (!read_only) REMORA_RETURN_IF_ERROR(Remove(dir, files.back()));
    files.pop_back();
  }
  for (std::size_t i = files.size(); i > 1; --i) {
    const LogFileInfo& before = files[i - 2];
    if (before.first + before.size != files[i - 1].first) {
      const auto begin = files.begin() + static_cast<std::ptrdiff_t>(i - 1);
      before_gap->assign(files.begin(), begin);
      return std::vector<LogFileInfo>(begin, files.end());
    }
  }
  return files;
}

/// Removes the bytes behind the end of the log (C5d).
absl::Status RemoveRemains(const std::string& dir, RecoveredLog* log) {
  for (const LogFileInfo& spare : log->spares) REMORA_RETURN_IF_ERROR(Remove(dir, spare));
  log->spares.clear();
  const LogFileInfo& last = log->held.back();
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<CommitLogFile> file,
                          CommitLogFile::Open(dir, last.first, last.size, LogWriterKind::kWrite));
  if (const int error = file->Clear(log->end - last.first); error != 0) {
    return LogErrnoStatus("clear the end of", file->path(), error);
  }
  if (fdatasync(file->fd()) != 0) return LogErrnoStatus("sync", file->path(), errno);
  return SyncDirectory(dir);
}

}  // namespace

absl::StatusOr<RecoveredLog> RecoverCommitLog(const LogRecoveryOptions& options, LogReplay replay) {
  std::vector<LogFileInfo> before_gap;
  REMORA_ASSIGN_OR_RETURN(const std::vector<LogFileInfo> files,
                          RunOfFiles(options.dir, options.read_only, &before_gap));
  RecoveredLog log;
  if (files.empty() || options.replay_from < files.front().first) {
    if (options.replay_from == Lsn{} && files.empty()) return log;
    return Damaged(options.dir, options.replay_from, "the file that holds it is missing");
  }
  absl::StatusOr<std::unique_ptr<CommitLogReader>> reader =
      CommitLogReader::Open(options.dir, options.replay_from);
  if (absl::IsOutOfRange(reader.status())) {
    return Damaged(options.dir, options.replay_from, "a group that was applied is not there any more");
  }
  REMORA_RETURN_IF_ERROR(reader.status());
  Lsn synced_to;
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const bool is_group, (*reader)->Next());
    if (!is_group) break;
    synced_to = std::max(synced_to, Lsn{(*reader)->group().header.synced_to});
    REMORA_RETURN_IF_ERROR(replay((*reader)->group()));
  }
  log.end = (*reader)->end();
  log.checksum = (*reader)->checksum();
  log.is_begun = (*reader)->file_is_begun();
  for (const LogFileInfo& file : files) {
    (file.first <= (*reader)->file_first() ? log.held : log.spares).push_back(file);
  }

  REMORA_ASSIGN_OR_RETURN(const LogRemains remains, FindLogRemains(options.dir, log.end));
  synced_to = std::max(synced_to, remains.synced_to);
  if (synced_to > log.end) {
    return DamagedBehind(options.dir, log,
                         absl::StrCat("groups up to LSN ", synced_to.value,
                                      " are missing, and the disk said that it has them"));
  }
  if (remains.groups > 0 && options.is_of_this_boot) {
    return DamagedBehind(
        options.dir, log,
        absl::StrCat("a group is damaged, and ", remains.groups,
                     " follow it, and no power cut did it: the machine was not started since. If its file "
                     "system failed without it, remove ",
                     std::filesystem::path(options.dir).parent_path().string(), "/", AbslView(kBootFile),
                     ": what is damaged is dropped then, and all behind it"));
  }
  log.was_torn = remains.groups > 0;
  if (options.read_only) return log;
  // The log is sound, so all that the caller needs is behind the gap (C5e).
  for (const LogFileInfo& file : before_gap) REMORA_RETURN_IF_ERROR(Remove(options.dir, file));
  if (log.was_torn) REMORA_RETURN_IF_ERROR(RemoveRemains(options.dir, &log));
  return log;
}

}  // namespace remora
