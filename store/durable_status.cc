#include "store/durable_status.h"

#include <rocksdb/status.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace remora {

absl::Status Damaged(const std::string& path, const std::string& why) {
  return absl::DataLossError(
      absl::StrCat("data directory ", path, " is damaged; restore it from a copy: ", why));
}

absl::Status ToStatus(const rocksdb::Status& status, const std::string& path) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  // RocksDB has no code for this one, and may call a file that it must not read a damaged one; its text ends
  // with that of errno.
  if (absl::StrContains(text, std::strerror(EACCES))) {
    return absl::PermissionDeniedError(absl::StrCat("not allowed to use data directory ", path, ": ", text));
  }
  // Our options do not change, so an argument that RocksDB calls invalid came from the files. So did "not
  // found", which an iterator or an open only says of a file; who looks up a key asks before.
  if (status.IsCorruption() || status.IsInvalidArgument() || status.IsNotFound() ||
      status.IsPathNotFound()) {
    return Damaged(path, text);
  }
  if (status.IsNoSpace()) {
    return absl::UnavailableError(absl::StrCat("no space left for data directory ", path, ": ", text));
  }
  return absl::UnavailableError(absl::StrCat("data directory ", path, ": ", text));
}

}  // namespace remora
