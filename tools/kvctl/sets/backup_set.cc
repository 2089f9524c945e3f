#include "tools/kvctl/sets/backup_set.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rdma/unique_fd.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/synced_file.h"
#include "store/format/cluster/shard_identity.h"
#include "tools/json/json.h"

namespace remora::kvctl {
namespace {

constexpr std::string_view kSetPrefix = "set-";

std::string ChecksumOf(const json_t* object) {
  const json::Value copy(json_copy(const_cast<json_t*>(object)));
  json_object_del(copy.get(), "checksum");
  const std::string text = json::Text(copy.get(), JSON_SORT_KEYS);
  return absl::StrFormat("%016x", XXH3_64bits(text.data(), text.size()));
}

/// Reads a number of an object; nothing: there is none.
std::optional<std::uint64_t> NumberOf(const json_t* object, const char* name) {
  const json_t* const number = json_object_get(object, name);
  if (!json_is_integer(number) || json_integer_value(number) < 0) return std::nullopt;
  return static_cast<std::uint64_t>(json_integer_value(number));
}

std::string_view TextOfField(const json_t* object, const char* name) {
  const json_t* const text = json_object_get(object, name);
  return json_is_string(text) ? json::StringOf(text) : std::string_view();
}

std::optional<std::uint32_t> SmallNumberOf(const json_t* object, const char* name) {
  const std::optional<std::uint64_t> number = NumberOf(object, name);
  if (!number || *number == 0 || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

/// Reads the backups, which must be those of the topology's shards.
bool ReadBackups(const json_t* array, const Topology& topology, std::vector<BackupInfo>* backups) {
  if (!json_is_array(array) || json_array_size(array) != topology.shards().size()) return false;
  for (std::size_t i = 0; i < topology.shards().size(); ++i) {
    const json_t* const object = json_array_get(array, i);
    const std::optional<std::uint32_t> id = SmallNumberOf(object, "backup");
    const std::optional<std::uint64_t> version = NumberOf(object, "version"),
                                       bytes = NumberOf(object, "bytes"),
                                       new_bytes = NumberOf(object, "new_bytes");
    if (TextOfField(object, "shard") != topology.shards()[i].name) return false;
    if (!id || !version || !bytes || !new_bytes) return false;
    backups->push_back(
        {.id = *id, .unix_s = 0, .version = *version, .bytes = *bytes, .new_bytes = *new_bytes});
  }
  return true;
}

/// Returns the number in the name of a set's file.
std::optional<std::uint32_t> NumberInName(std::string_view name) {
  if (!name.starts_with(kSetPrefix)) return std::nullopt;
  name.remove_prefix(kSetPrefix.size());
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size() && name.front() != '0';
  return is_number ? std::optional(number) : std::nullopt;
}

std::uint64_t SumOf(const std::vector<BackupInfo>& backups, std::uint64_t BackupInfo::*part) {
  return std::accumulate(backups.begin(), backups.end(), std::uint64_t{0},
                         [part](std::uint64_t sum, const BackupInfo& backup) { return sum + backup.*part; });
}

absl::StatusOr<std::string> ReadSetFile(const std::string& path) {
  const rdma::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // not to wait for a pipe
  if (!fd) return FaultOfFile(errno, absl::StrCat("sets: cannot open ", path));
  struct stat status;
  if (::fstat(fd.get(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return absl::DataLossError(absl::StrCat(
        "sets: ", path, " is no file; remove it, or take another set (kvctl backups lists them)"));
  }
  const json::Value object(json_loadfd(fd.get(), JSON_REJECT_DUPLICATES, nullptr));
  return object != nullptr ? json::Text(object.get()) : std::string();
}

}  // namespace

std::uint64_t BackupSet::bytes() const { return SumOf(backups, &BackupInfo::bytes); }
std::uint64_t BackupSet::new_bytes() const { return SumOf(backups, &BackupInfo::new_bytes); }

std::string ToText(const BackupSet& set) {
  const json::Value backups(json_array());
  for (std::size_t i = 0; i < set.backups.size(); ++i) {
    const BackupInfo& backup = set.backups[i];
    json_array_append_new(
        backups.get(),
        json_pack("{so so so so so}", "shard", json::NewString(set.topology.shards()[i].name), "backup",
                  json::NewCount(backup.id), "version", json::NewCount(backup.version), "bytes",
                  json::NewCount(backup.bytes), "new_bytes", json::NewCount(backup.new_bytes)));
  }
  const json::Value object(json_pack("{si so so so sO}", "remora_backup_set", kBackupSetFormat, "set",
                                     json::NewCount(set.number), "unix_s",
                                     json::NewCount(static_cast<std::uint64_t>(set.unix_s)), "topology",
                                     json::NewString(set.topology.ToText()), "backups", backups.get()));
  return WithChecksum(json::Text(object.get())) + "\n";
}

std::string WithChecksum(std::string_view object) {
  const json::Value value = json::Parse(object);
  json_object_set_new(value.get(), "checksum", json::NewString(ChecksumOf(value.get())));
  return json::Text(value.get());
}

std::string SetLines(const BackupSet& set) {
  return absl::StrFormat("set %d\nshards %d\nbytes %d\nnew_bytes %d\n", set.number, set.backups.size(),
                         set.bytes(), set.new_bytes());
}

absl::StatusOr<BackupSet> ParseBackupSet(std::string_view text, std::string_view name) {
  const auto damaged = [&] {
    return absl::DataLossError(
        absl::StrCat("sets: ", AbslView(name), " is damaged; take another set (kvctl backups lists them)"));
  };
  const json::Value object = json::Parse(text);
  if (!json_is_object(object.get())) return damaged();
  if (const std::optional<std::uint64_t> format = NumberOf(object.get(), "remora_backup_set");
      format && *format != kBackupSetFormat) {
    return absl::FailedPreconditionError(absl::StrCat("sets: ", AbslView(name), " has format ", *format,
                                                      ", and this kvctl knows format ", kBackupSetFormat,
                                                      "; use that of the release that made it"));
  }
  const std::optional<std::uint32_t> number = SmallNumberOf(object.get(), "set");
  const std::optional<std::uint64_t> unix_s = NumberOf(object.get(), "unix_s");
  if (TextOfField(object.get(), "checksum") != ChecksumOf(object.get()) || !number || !unix_s)
    return damaged();
  absl::StatusOr<Topology> topology = Topology::Parse(TextOfField(object.get(), "topology"), name);
  if (!topology.ok()) return damaged();
  BackupSet set{*number, static_cast<std::int64_t>(*unix_s), *std::move(topology), {}};
  if (!ReadBackups(json_object_get(object.get(), "backups"), set.topology, &set.backups)) return damaged();
  return set;
}

std::string PathOfSet(const std::string& dir, std::uint32_t number) {
  return absl::StrCat(dir, "/", AbslView(kSetPrefix), number);
}

bool IsNameOfSets(std::string_view name) { return name.starts_with(kSetPrefix) || name == "topology"; }

absl::StatusOr<std::vector<std::uint32_t>> ListSets(const std::string& dir) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(dir));
  std::vector<std::uint32_t> numbers;
  for (const std::string& name : names) {
    if (const std::optional<std::uint32_t> number = NumberInName(name)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

absl::StatusOr<BackupSet> ReadBackupSet(const std::string& dir, std::uint32_t number) {
  if (number == 0) {
    REMORA_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> numbers, ListSets(dir));
    if (numbers.empty()) {
      return absl::NotFoundError(
          absl::StrCat("sets: ", dir, " has no set of backups; make one with kvctl backup --topology"));
    }
    number = numbers.back();
  }
  const std::string path = PathOfSet(dir, number);
  const absl::StatusOr<std::string> text = ReadSetFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat("sets: ", dir, " has no set ", number, "; kvctl backups lists those that it has"));
  }
  REMORA_RETURN_IF_ERROR(text.status());
  absl::StatusOr<BackupSet> set = ParseBackupSet(*text, path);
  if (set.ok() && set->number != number) {
    return absl::DataLossError(absl::StrCat("sets: ", path, " has set ", set->number,
                                            ": it was renamed; give it the name of that number"));
  }
  return set;
}

absl::Status WriteBackupSet(const std::string& dir, const BackupSet& set) {
  return WriteWhole(dir, absl::StrCat(AbslView(kSetPrefix), set.number), ToText(set));
}

absl::Status WriteWhole(const std::string& dir, std::string_view name, std::string_view text) {
  if (const std::optional<WriteFault> fault = ReplaceSynced(absl::StrCat(dir, "/", AbslView(name)), text)) {
    return FaultOfFile(fault->error, absl::StrCat("sets: cannot ", AbslView(fault->step), " ", fault->path));
  }
  return SyncDirectory(dir);
}

absl::Status FaultOfFile(int error, std::string_view what) {
  if (error == ENOENT || error == EACCES) return absl::ErrnoToStatus(error, AbslView(what));
  return MarkedByErrno(error,
                       absl::UnavailableError(absl::StrCat(AbslView(what), ": ", std::strerror(error))));
}

absl::Status InSet(const BackupSet& set, std::size_t shard, const absl::Status& status) {
  if (status.ok()) return status;
  return WithMarksOf(status, absl::Status(status.code(), absl::StrCat("set ", set.number, ", shard ",
                                                                      set.topology.shards()[shard].name, ": ",
                                                                      status.message())));
}

absl::StatusOr<BackupInfo> FindBackup(const std::string& dir, const BackupSet& set, std::size_t shard) {
  const std::string own = absl::StrCat(dir, "/", set.topology.shards()[shard].name);
  const absl::StatusOr<std::vector<BackupInfo>> infos = ListBackups(own);
  if (!infos.ok()) return InSet(set, shard, infos.status());
  const BackupInfo& wanted = set.backups[shard];
  const auto found = std::ranges::find(*infos, wanted.id, &BackupInfo::id);
  if (found == infos->end()) {
    // The list lacks a backup whose files are missing or cut, and this finds it without reading them.
    const absl::Status status = VerifyBackup(own, wanted.id).status();
    if (absl::IsDataLoss(status)) return InSet(set, shard, status);
  } else if (found->version == wanted.version && found->bytes == wanted.bytes) {
    return *found;
  }
  return InSet(set, shard,
               absl::NotFoundError(absl::StrCat("sets: ", own, " has no backup ", wanted.id, " of version ",
                                                wanted.version,
                                                "; --backup_keep may have deleted it, or the "
                                                "directory is of another server")));
}

absl::Status CheckIsOf(const BackupSet& set, const Topology& topology) {
  if (set.topology.cluster() != topology.cluster()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "sets: set ", set.number, " is of cluster ", ClusterText(set.topology.cluster()),
        ", and the topology of ", ClusterText(topology.cluster()), "; name the topology of that cluster"));
  }
  const bool is_same = std::ranges::equal(set.topology.shards(), topology.shards(),
                                          [](const ShardPlace& one, const ShardPlace& other) {
                                            return one.name == other.name && one.slots == other.slots;
                                          });
  if (is_same) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "sets: set ", set.number,
      " has other shards or slots than the topology: ", set.topology.shards().size(), " shards, and ",
      topology.shards().size(), " there; restore it for the division that it has"));
}

}  // namespace remora::kvctl
