#include "store/durable_status.h"

#include <rocksdb/status.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "store/base/absl_view.h"

namespace remora {

absl::Status DamagedStatus(std::string_view place, std::string_view why) {
  return absl::DataLossError(
      absl::StrCat(AbslView(place), " is damaged; restore it from a copy: ", AbslView(why)));
}

// The text of a call that failed ends with that of errno.
bool WillPass(const rocksdb::Status& status) {
  if (status.ok()) return false;
  const std::string text = status.ToString();
  return std::ranges::any_of(std::array{EMFILE, ENFILE, ENOMEM, EINTR},
                             [&](int error) { return absl::EndsWith(text, std::strerror(error)); });
}

absl::Status ToStatus(const rocksdb::Status& status, std::string_view place) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  // RocksDB has no code for this one, and may call a file that it must not read a damaged one; its text ends
  // with that of errno.
  if (absl::StrContains(text, std::strerror(EACCES))) {
    return absl::PermissionDeniedError(absl::StrCat("not allowed to use ", AbslView(place), ": ", text));
  }
  if (WillPass(status)) {
    // Its files are told of as if the disk were full (durable_files.h).
    return absl::UnavailableError(
        absl::StrCat("the system is short of descriptors or memory right now (ulimit -n): ", AbslView(place),
                     ": ", absl::StrReplaceAll(text, {{"No space left on device: ", ""}})));
  }
  // Our options do not change, so an argument that RocksDB calls invalid came from the files. So did "not
  // found", which an iterator or an open only says of a file; who looks up a key asks before.
  if (status.IsCorruption() || status.IsInvalidArgument() || status.IsNotFound() || status.IsPathNotFound()) {
    return DamagedStatus(place, text);
  }
  if (status.IsNoSpace()) {
    return absl::UnavailableError(absl::StrCat("no space left for ", AbslView(place), ": ", text));
  }
  return absl::UnavailableError(absl::StrCat(AbslView(place), ": ", text));
}

}  // namespace remora
