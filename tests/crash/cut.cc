#include "cut.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "disk.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPage = 4096;

/// A change of names that the disk may not have.
struct Change {
  std::string kind;
  std::string path;  // of a rename, what was renamed
  std::string to;
  std::string saved;

  /// A rename is one change, also from one folder to another.
  bool IsOf(const std::string& folder) const {
    return fs::path(path).parent_path() == folder || fs::path(to).parent_path() == folder;
  }
};

struct Journal {
  std::vector<Change> changes;
  std::map<std::string, std::uint64_t> synced;  // bytes of each file that was made since
  std::set<std::string> in_place;               // files that are written so
};

absl::Status Apply(const std::string& line, Journal& journal) {
  std::istringstream words(line);
  Change change;
  words >> change.kind >> change.path;
  if (change.kind == "synced") {
    std::uint64_t size = 0;
    words >> size;
    // One that was there before is written no more, or all of it counts.
    const auto file = journal.synced.find(change.path);
    if (file != journal.synced.end()) file->second = std::max(file->second, size);
    return absl::OkStatus();
  }
  if (change.kind == "synced_folder") {
    std::erase_if(journal.changes, [&](const Change& some) { return some.IsOf(change.path); });
    return absl::OkStatus();
  }
  if (change.kind == "in_place") {
    journal.in_place.insert(change.path);
    return absl::OkStatus();
  }
  if (change.kind == "unmodelled") return absl::FailedPreconditionError(line);
  if (change.kind == "create") {
    journal.synced[change.path] = 0;
  } else if (change.kind == "rename") {
    words >> change.to >> change.saved;
    journal.synced.erase(change.to);
    journal.in_place.erase(change.to);
    if (journal.in_place.erase(change.path) > 0) journal.in_place.insert(change.to);
    if (auto file = journal.synced.extract(change.path); !file.empty()) {
      file.key() = change.to;
      journal.synced.insert(std::move(file));
    }
  } else if (change.kind == "unlink") {
    words >> change.saved;
    journal.synced.erase(change.path);
    journal.in_place.erase(change.path);
  } else if (change.kind != "mkdir") {
    return absl::InternalError(absl::StrCat("a line of the journal: ", line));
  }
  if (!words) return absl::InternalError(absl::StrCat("a line of the journal: ", line));
  journal.changes.push_back(std::move(change));
  return absl::OkStatus();
}

absl::StatusOr<Journal> ReadJournal(const std::string& path) {
  Journal journal;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // incomplete: the call had not returned
    REMORA_RETURN_IF_ERROR(Apply(line, journal));
  }
  return journal;
}

/// Each may have been noted and not done: then there is nothing to undo.
void Undo(const Change& change) {
  if (change.kind == "create" || change.kind == "mkdir") {
    fs::remove_all(change.path);
    return;
  }
  const std::string& gone = change.kind == "rename" ? change.to : change.path;
  if (change.kind == "rename" && !fs::exists(change.path) && fs::exists(change.to)) {
    fs::rename(change.to, change.path);
  }
  if (change.saved != "-" && !fs::exists(gone)) fs::create_hard_link(change.saved, gone);
}

absl::Status CutFile(const std::string& path, std::uint64_t synced, std::mt19937_64& random,
                     CutReport& report) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) return absl::OkStatus();  // noted, and not made
  if (size < synced) {
    return absl::InternalError(absl::StrCat(path, " has ", size, " bytes, and ", synced, " were synced"));
  }
  if (size == synced) return absl::OkStatus();
  const std::uint64_t tail = size - synced;
  // As much as can be lost, nothing, or some.
  const std::uint64_t kinds = random() % 4;
  const std::uint64_t kept = kinds == 0 ? 0 : kinds == 1 ? tail : random() % (tail + 1);
  fs::resize_file(path, synced + kept);
  std::uint64_t lost = tail - kept;
  if (random() % 2 == 0) {
    const std::vector<char> zeros(kPage);
    const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    for (std::uint64_t at = synced; at < synced + kept;) {
      const std::uint64_t end = std::min((at / kPage + 1) * kPage, synced + kept);
      if (random() % 2 == 0) {
        lost += end - at;
        if (pwrite(file, zeros.data(), end - at, static_cast<off_t>(at)) < 0) {
          return absl::ErrnoToStatus(errno, path);
        }
      }
      at = end;
    }
    close(file);
  }
  report.bytes += lost;
  report.files += lost > 0 ? 1 : 0;
  return absl::OkStatus();
}

/// Takes back pages that were not synced: all, none, or some.
absl::Status CutInPlace(const std::string& path, const std::string& saved, std::mt19937_64& random,
                        CutReport& report) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return absl::OkStatus();  // noted, and not done
  const int image = open(absl::StrCat(saved, "/", ImageName(status.st_ino)).c_str(), O_RDONLY | O_CLOEXEC);
  if (image < 0) return absl::OkStatus();  // another file took the name, and nothing is known of it
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  const std::uint64_t kinds = random() % 4;
  std::vector<char> now(kPage);
  std::vector<char> before(kPage);
  std::uint64_t lost = 0;
  for (std::uint64_t at = 0; at < static_cast<std::uint64_t>(status.st_size); at += kPage) {
    const auto offset = static_cast<off_t>(at);
    const ssize_t size = pread(image, before.data(), kPage, offset);
    if (size <= 0) break;                                      // the rest was appended
    if (pread(file, now.data(), kPage, offset) < size) break;  // its end was lost as that of others
    if (std::equal(before.begin(), before.begin() + size, now.begin())) continue;
    if (kinds == 1 || (kinds != 0 && random() % 2 == 0)) continue;
    lost += static_cast<std::uint64_t>(size);
    if (pwrite(file, before.data(), static_cast<std::size_t>(size), offset) != size) {
      return absl::ErrnoToStatus(errno, path);
    }
  }
  close(image);
  close(file);
  report.bytes += lost;
  report.files += lost > 0 ? 1 : 0;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CutReport> CutPower(const std::string& path, std::mt19937_64& random) {
  CutReport report;
  if (!fs::exists(path)) return report;  // killed before it did anything
  REMORA_ASSIGN_OR_RETURN(Journal journal, ReadJournal(path));
  const std::size_t kept = random() % (journal.changes.size() + 1);
  // By the names that the files have, before those change back. A replaced or removed file that comes back
  // comes with all its bytes.
  for (const auto& [file, synced] : journal.synced)
    REMORA_RETURN_IF_ERROR(CutFile(file, synced, random, report));
  for (const std::string& file : journal.in_place) {
    REMORA_RETURN_IF_ERROR(CutInPlace(file, path + ".saved", random, report));
  }
  for (std::size_t i = journal.changes.size(); i-- > kept;) {
    Undo(journal.changes[i]);
    ++report.names;
  }
  fs::resize_file(path, 0);
  fs::remove_all(path + ".saved");
  fs::create_directory(path + ".saved");
  return report;
}

}  // namespace remora
