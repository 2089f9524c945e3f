// backups, check and restore of a set.
#include <sysexits.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cluster/topology.h"
#include "store/backup.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/new_directory.h"
#include "tools/kvctl/progress.h"
#include "tools/kvctl/sets/backup_set.h"
#include "tools/kvctl/sets/commands.h"

namespace remora::kvctl {
namespace {

/// Reads the set that the arguments name, and compares it with their topology if there is one.
absl::StatusOr<BackupSet> SetOf(const Arguments& arguments) {
  REMORA_ASSIGN_OR_RETURN(BackupSet set, ReadBackupSet(arguments.from, arguments.id));
  if (arguments.topology) REMORA_RETURN_IF_ERROR(CheckIsOf(set, *arguments.topology));
  return set;
}

/// Makes the data directory of a shard, which keeps the shard's identity.
absl::Status RestoreShard(const std::string& from, const BackupSet& set, std::size_t shard,
                          const std::string& to, std::int64_t unix_s) {
  const std::string& name = set.topology.shards()[shard].name;
  const std::string data_dir = absl::StrCat(to, "/", name);
  REMORA_RETURN_IF_ERROR(
      RestoreBackup(absl::StrCat(from, "/", name), set.backups[shard].id, data_dir, unix_s).status());
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> made, DataDir::Open(data_dir));
  return made->NoteShard(set.topology.IdentityOfShard(shard));
}

/// Returns what the list shows of the backups of a set: "whole", or what is wrong with those of some shards.
/// `unknown`: the first failure to examine one.
std::string StateOfSet(const std::string& dir, const BackupSet& set, absl::Status* unknown) {
  std::vector<std::string> lacking;
  std::vector<std::string> damaged;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < set.backups.size(); ++i) {
    const std::string& name = set.topology.shards()[i].name;
    const absl::Status status = FindBackup(dir, set, i).status();
    if (status.ok()) continue;
    if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) {
      lacking.push_back(name);
    } else if (absl::IsDataLoss(status)) {
      damaged.push_back(name);
    } else {
      others.push_back(name);
      if (unknown->ok()) *unknown = status;
    }
  }
  std::vector<std::string> parts;
  const auto add = [&parts](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) parts.push_back(absl::StrCat(what, " ", absl::StrJoin(names, ",")));
  };
  add("lacks", lacking);
  add("damaged", damaged);
  add("unknown", others);
  return parts.empty() ? "whole" : absl::StrJoin(parts, "; ");
}

}  // namespace

bool HasSets(const Arguments& arguments) {
  const absl::StatusOr<std::vector<std::uint32_t>> numbers = ListSets(arguments.from);
  return numbers.ok() && !numbers->empty();
}

Outcome WithoutSet(const Arguments& arguments, Outcome failure) {
  const std::string lock = absl::StrCat(arguments.from, "/", AbslView(kSetLock));
  if (failure.exit_code == EX_CONFIG && ::access(lock.c_str(), F_OK) == 0) {
    failure.error += "; it is of a cluster, and no set is made yet: run kvctl backup --topology again";
  }
  return failure;
}

Outcome ListBackupSets(const Arguments& arguments) {
  const absl::StatusOr<std::vector<std::uint32_t>> numbers = ListSets(arguments.from);
  if (!numbers.ok()) return FromOffline(numbers.status());
  std::string lines;
  Outcome outcome;  // the first set that cannot be listed, or shard that cannot be examined
  const auto keep_first = [&outcome](const absl::Status& status) {
    if (!status.ok() && !Failed(outcome)) outcome = FromOffline(status);
  };
  for (const std::uint32_t number : *numbers) {
    const absl::StatusOr<BackupSet> set = ReadBackupSet(arguments.from, number);
    keep_first(set.status());
    if (!set.ok()) continue;
    absl::Status unknown;
    const std::string state = StateOfSet(arguments.from, *set, &unknown);
    keep_first(unknown);
    absl::StrAppendFormat(&lines, "%d\t%s\t%d\t%d\t%d\t%s\n", number, TimeOfBackup(set->unix_s),
                          set->backups.size(), set->bytes(), set->new_bytes(), state);
  }
  const Outcome written = WriteOutput(lines);
  return Failed(written) ? written : outcome;
}

Outcome CheckSet(const Arguments& arguments, const Clock& clock) {
  const absl::StatusOr<BackupSet> set = SetOf(arguments);
  if (!set.ok()) return FromOffline(set.status());
  Progress progress("shards", set->backups.size(), clock);
  for (std::size_t i = 0; i < set->backups.size(); ++i) {
    progress.Show(i);
    absl::Status status = FindBackup(arguments.from, *set, i).status();
    const std::string dir = absl::StrCat(arguments.from, "/", set->topology.shards()[i].name);
    if (status.ok()) status = InSet(*set, i, VerifyBackup(dir, set->backups[i].id).status());
    if (!status.ok()) return FromOffline(status);
  }
  progress.Hide();
  return WriteOutput(SetLines(*set));
}

Outcome RestoreSet(const Arguments& arguments, const Clock& clock) {
  const absl::StatusOr<BackupSet> set = SetOf(arguments);
  if (!set.ok()) return FromOffline(set.status());
  Progress progress("shards", set->backups.size(), clock);
  const auto restore = [&](const std::string& made) -> absl::Status {
    // All that can be known without reading the backups comes first.
    for (std::size_t i = 0; i < set->backups.size(); ++i) {
      REMORA_RETURN_IF_ERROR(FindBackup(arguments.from, *set, i).status());
    }
    for (std::size_t i = 0; i < set->backups.size(); ++i) {
      progress.Show(i);
      REMORA_RETURN_IF_ERROR(
          InSet(*set, i, RestoreShard(arguments.from, *set, i, made, clock.UnixMillis() / 1000)));
    }
    return WriteWhole(made, "topology", set->topology.ToText());
  };
  const absl::Status restored = FillNewDirectory(arguments.to, "topology", restore);
  progress.Hide();
  if (!restored.ok()) return FromOffline(restored);
  return WriteOutput(SetLines(*set), absl::StrCat("set ", set->number, " is restored"));
}

}  // namespace remora::kvctl
