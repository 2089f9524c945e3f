// backups, check and restore of a set.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/topology.h"
#include "store/backup.h"
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

}  // namespace

bool HasSets(const Arguments& arguments) {
  const absl::StatusOr<std::vector<std::uint32_t>> numbers = ListSets(arguments.from);
  return numbers.ok() && !numbers->empty();
}

Outcome ListBackupSets(const Arguments& arguments) {
  const absl::StatusOr<std::vector<std::uint32_t>> numbers = ListSets(arguments.from);
  if (!numbers.ok()) return FromOffline(numbers.status());
  std::string lines;
  for (const std::uint32_t number : *numbers) {
    const absl::StatusOr<BackupSet> set = ReadBackupSet(arguments.from, number);
    if (!set.ok()) return FromOffline(set.status());
    std::string lacking;
    for (std::size_t i = 0; i < set->backups.size(); ++i) {
      if (FindBackup(arguments.from, *set, i).ok()) continue;
      absl::StrAppend(&lacking, lacking.empty() ? "lacks " : ",", set->topology.shards()[i].name);
    }
    absl::StrAppendFormat(&lines, "%d\t%s\t%d\t%d\t%d\t%s\n", number, TimeOfBackup(set->unix_s),
                          set->backups.size(), set->bytes(), set->new_bytes(),
                          lacking.empty() ? "whole" : lacking);
  }
  return WriteOutput(lines);
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
