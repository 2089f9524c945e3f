#include "store/durable/status.h"

#include <rocksdb/status.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"

namespace remora {

namespace {

/// Returns the format of a table that a newer RocksDB has written, from the error of this one. Formats are
/// small numbers. A large one is damage: returns nullopt.
std::optional<int> LaterTableFormat(std::string_view error) {
  constexpr std::string_view kBefore = "unsupported format_version: ";
  constexpr int kMaxLaterFormat = 15;
  const std::size_t at = error.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  int format = 0;
  const std::string_view number = error.substr(at + kBefore.size());
  const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), format);
  return failure == std::errc() && format > 0 && format <= kMaxLaterFormat ? std::optional(format)
                                                                           : std::nullopt;
}

}  // namespace

absl::Status DamagedStatus(std::string_view place, std::string_view why) {
  return absl::DataLossError(
      absl::StrCat(AbslView(place), " is damaged; restore it from a copy: ", AbslView(why)));
}

// The text of RocksDB's error ends with that of the errno of the failed call.
bool WillPass(const rocksdb::Status& status) {
  if (status.ok()) return false;
  const std::string text = status.ToString();
  const auto ends = [&](int error) { return absl::EndsWith(text, std::strerror(error)); };
  return ends(EINTR) || std::ranges::any_of(kShortageErrors, ends);
}

bool IsDiskFull(const rocksdb::Status& status) {
  return status.IsNoSpace() || (!status.ok() && absl::EndsWith(status.ToString(), std::strerror(EDQUOT)));
}

absl::Status ToStatus(const rocksdb::Status& status, std::string_view place) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  // RocksDB has no code for EACCES, and may report corruption for a file that it may not read. But its text
  // contains that of the errno.
  if (absl::StrContains(text, std::strerror(EACCES))) {
    return absl::PermissionDeniedError(absl::StrCat("not allowed to use ", AbslView(place), ": ", text));
  }
  if (const std::optional<int> format = LaterTableFormat(text)) {
    return absl::FailedPreconditionError(
        absl::StrCat(AbslView(place), " holds a table of RocksDB's format ", *format,
                     ", which this program does not know. Use the version of the program that wrote it, or a "
                     "newer one; if no newer version was ever used, the table is damaged: restore it from a "
                     "copy. ",
                     text));
  }
  if (WillPass(status)) {
    // RocksDB was told that the disk is full (F1 of files.h). Remove that from the text.
    return MarkedAsShortage(
        absl::UnavailableError(absl::StrCat(kShortageText, ": ", AbslView(place), ": ",
                                            absl::StrReplaceAll(text, {{"No space left on device: ", ""}}))));
  }
  // Remora's options do not change, so an argument that RocksDB calls invalid came from the files. "Not
  // found" refers to a file, too: a caller that looks up a key tests IsNotFound before it calls this.
  if (status.IsCorruption() || status.IsInvalidArgument() || status.IsNotFound() || status.IsPathNotFound()) {
    return DamagedStatus(place, text);
  }
  if (IsDiskFull(status)) {
    return MarkedAsDiskFailure(
        absl::UnavailableError(absl::StrCat("no space left for ", AbslView(place), ": ", text)));
  }
  return MarkedAsDiskFailure(absl::UnavailableError(absl::StrCat(AbslView(place), ": ", text)));
}

}  // namespace remora
