#include "server/replication/history.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/synced_file.h"

namespace remora {
namespace {

constexpr std::string_view kFirstLine = "remora-replication 1";
// No file that this program wrote is longer.
constexpr std::size_t kMaxFile = std::size_t{1} << 16;

absl::Status Rejected(std::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("follow: ", AbslView(why)));
}

absl::Status FileError(std::string_view operation, const std::string& path, int error) {
  const std::string text = absl::StrCat("replication: cannot ", AbslView(operation), " ", path, ": ",
                                        std::strerror(error), "; see to the disk, and start again");
  return error == EACCES ? absl::PermissionDeniedError(text) : absl::UnavailableError(text);
}

std::string PathIn(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/", AbslView(kHistoryFile));
}

std::optional<Reign> ParseReign(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  Reign reign;
  if (words.size() != 4 || words[0] != "reign" || !absl::SimpleAtoi(words[1], &reign.epoch) ||
      !absl::SimpleHexAtoi(words[2], &reign.id) || !absl::SimpleAtoi(words[3], &reign.after)) {
    return std::nullopt;
  }
  return reign;
}

}  // namespace

void History::Begin(std::uint64_t id, std::uint64_t after) {
  reigns.push_back({.epoch = epoch() + 1, .id = id, .after = after});
  if (reigns.size() > kMaxReigns) reigns.erase(reigns.begin());
}

// --- May a store follow a primary? ----------------------------------------------------------------------

namespace {

/// Returns OK if a follower may give up its position for this primary's, as far as their epochs say.
absl::Status CheckEpochs(const History& own, const FollowerPosition& at, const History& primary) {
  if (own.reigns.empty()) {
    if (at.last != 0 || !at.is_empty) {
      return Rejected(
          "this follower has data that did not come from a primary; begin with an empty --data_dir");
    }
  }
  if (primary.epoch() < own.epoch()) {
    return Rejected(absl::StrCat("the primary is of epoch ", primary.epoch(), ", this follower of ",
                                 own.epoch(), ": another server was promoted since; stop that primary"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCopy(const History& own, const FollowerPosition& at, const History& primary) {
  REMORA_RETURN_IF_ERROR(CheckEpochs(own, at, primary));
  const bool is_related = std::ranges::any_of(own.reigns, [&](const Reign& one) {
    return std::ranges::find(primary.reigns, one.id, &Reign::id) != primary.reigns.end();
  });
  if (own.reigns.empty() || is_related) return absl::OkStatus();
  return Rejected(
      "the primary's history has no reign of this follower's: its shard is another one, or was begun anew; "
      "compare --shard and etcd, or begin with an empty --data_dir");
}

absl::Status CheckPrimary(const History& own, const FollowerPosition& at, const History& primary,
                          std::uint64_t primary_last) {
  const std::string epochs =
      absl::StrCat("the primary is of epoch ", primary.epoch(), ", this follower of ", own.epoch());
  REMORA_RETURN_IF_ERROR(CheckEpochs(own, at, primary));
  if (own.reigns.empty()) {
    if (!primary.began_empty) {
      return Rejected(
          "the primary had data before it had followers; give this follower a copy of the primary's "
          "--data_dir");
    }
    return absl::OkStatus();
  }
  // An empty store follows only from a history's first group on (R3).
  const std::string begin_anew = primary.began_empty
                                     ? "begin with an empty --data_dir"
                                     : "give this follower a copy of the primary's --data_dir";
  const Reign& reign = own.reigns.back();
  const auto found =
      std::ranges::find_if(primary.reigns, [&](const Reign& one) { return one.epoch == reign.epoch; });
  if (found == primary.reigns.end() || found->id != reign.id) {
    return Rejected(
        absl::StrCat(epochs, ", and their histories differ: stop one of two primaries, or ", begin_anew));
  }
  const std::uint64_t end = found + 1 == primary.reigns.end() ? primary_last : (found + 1)->after;
  if (at.last > end) {
    return Rejected(absl::StrCat("this follower has groups up to ", at.last,
                                 ", of which the primary has only ", end, "; ", begin_anew));
  }
  return absl::OkStatus();
}

bool IsInOrder(const std::vector<Reign>& reigns) {
  for (std::size_t i = 0; i < reigns.size(); ++i) {
    if (reigns[i].epoch == 0 || reigns[i].id == 0) return false;
    if (i > 0 && (reigns[i].epoch <= reigns[i - 1].epoch || reigns[i].after < reigns[i - 1].after))
      return false;
  }
  return true;
}

// --- The file -------------------------------------------------------------------------------------------

std::string FormatHistory(const History& history) {
  std::string text =
      absl::StrCat(AbslView(kFirstLine), "\nrole ", history.is_primary ? "primary" : "follower", "\nbegan ",
                   history.began_empty ? "empty" : "with data", "\n");
  for (const Reign& reign : history.reigns) {
    absl::StrAppend(&text, "reign ", reign.epoch, " ", absl::Hex(reign.id, absl::kZeroPad16), " ",
                    reign.after, "\n");
  }
  return text;
}

std::optional<History> ParseHistory(std::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(AbslView(text), '\n');
  if (lines.size() < 4 || !lines.back().empty() || lines[0] != AbslView(kFirstLine)) return std::nullopt;
  History history;
  history.is_primary = lines[1] == "role primary";
  history.began_empty = lines[2] == "began empty";
  for (std::size_t i = 3; i + 1 < lines.size(); ++i) {
    const std::optional<Reign> reign = ParseReign(lines[i]);
    if (!reign) return std::nullopt;
    history.reigns.push_back(*reign);
  }
  // So a word that nobody wrote does not pass.
  if (!IsInOrder(history.reigns) || history.reigns.size() > kMaxReigns || FormatHistory(history) != text)
    return std::nullopt;
  return history;
}

absl::StatusOr<std::optional<History>> ReadHistory(const std::string& data_dir) {
  const std::string path = PathIn(data_dir);
  std::string text(kMaxFile, '\0');
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (file < 0) return FileError("open", path, errno);
  const ssize_t size = ::read(file, text.data(), text.size());
  const absl::Status failed = size < 0 ? FileError("read", path, errno) : absl::OkStatus();
  ::close(file);
  REMORA_RETURN_IF_ERROR(failed);
  text.resize(static_cast<std::size_t>(size));
  std::optional<History> history = ParseHistory(text);
  if (history) return history;
  return absl::DataLossError(absl::StrCat(
      "replication: ", path, " is damaged; begin with an empty --data_dir, or a copy of a follower's"));
}

absl::Status WriteHistory(const std::string& data_dir, const History& history) {
  const std::string path = PathIn(data_dir);
  if (const std::optional<WriteFault> fault = ReplaceSynced(path, FormatHistory(history))) {
    return FileError(fault->step, fault->path, fault->error);
  }
  return SyncDirectory(data_dir);
}

}  // namespace remora
