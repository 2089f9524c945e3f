// Sets of backups: one backup of each shard of a cluster.
//
//   DIR/NAME       the backups of the shard NAME, which its server makes there (kvserver --backup_dir)
//   DIR/set-3      the file of set 3: JSON, which names a backup of each shard, and their cluster
//   DIR/set-lock   kvctl holds it while it makes a set
//
//   {"remora_backup_set":1,"set":3,"unix_s":1795305600,    the format's version, first in meaning
//    "topology":"remora-topology 2\ncluster ...",          the cluster's ID, its shards and their slots
//    "backups":[{"shard":"0","backup":5,"version":1234,"bytes":4096,"new_bytes":512}, ...],
//    "checksum":"9f86d081884c7d65"}                        of all else
//
// F1 The file is written when all backups are made, and as a whole. So a set without one of its backups does
//    not come to be: a run that is interrupted leaves backups of shards, and no set.
// F2 The checksum is XXH3 of the object's shortest text without it, the names in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/topology.h"
#include "store/backup.h"

namespace remora::kvctl {

inline constexpr int kBackupSetFormat = 1;
/// Name of the file that a maker of sets locks.
inline constexpr std::string_view kSetLock = "set-lock";

/// A set of backups.
struct BackupSet {
  std::uint32_t number = 0;  // from 1 on
  std::int64_t unix_s = 0;   // time at which it was complete
  Topology topology;
  std::vector<BackupInfo> backups;  // of the shards, in the topology's order; unix_s is not known

  std::uint64_t bytes() const;
  std::uint64_t new_bytes() const;
};

/// Returns the text of a set's file.
std::string ToText(const BackupSet& set);

/// Returns the text of a JSON object with the checksum that fits (F2). REQUIRES: `object` is one.
std::string WithChecksum(std::string_view object);

/// Returns the lines with which a command shows a set.
std::string SetLines(const BackupSet& set);

/// Reads the text of a set's file. `name` stands before each error. Outcomes:
///   DataLoss: the text is damaged.
///   FailedPrecondition: it has another format.
absl::StatusOr<BackupSet> ParseBackupSet(std::string_view text, std::string_view name);

/// Returns the path of a set's file.
std::string PathOfSet(const std::string& dir, std::uint32_t number);

/// Returns whether a file of a set, or of the directory of a restored one, could have this name. Then no
/// shard of a set may be called so.
bool IsNameOfSets(std::string_view name);

/// Returns the numbers of the sets in a directory, in order. NotFound, PermissionDenied, Unavailable: it
/// cannot be listed.
absl::StatusOr<std::vector<std::uint32_t>> ListSets(const std::string& dir);

/// Reads a set. `number` 0: the newest one. Outcomes as for ParseBackupSet and ListSets, and:
///   NotFound: no set has this number.
absl::StatusOr<BackupSet> ReadBackupSet(const std::string& dir, std::uint32_t number);

/// Writes the file of a set, as a whole, and waits until the disk has it. Unavailable, PermissionDenied,
/// NotFound: it cannot be written; then there is no such set.
absl::Status WriteBackupSet(const std::string& dir, const BackupSet& set);

/// Writes a file of a directory, as a whole, and waits until the disk has it. Outcomes as for WriteBackupSet.
absl::Status WriteWhole(const std::string& dir, std::string_view name, std::string_view text);

/// Returns the outcome of a call on a file that failed with this errno. NotFound, PermissionDenied,
/// Unavailable. `what`: the call, for the message.
absl::Status FaultOfFile(int error, std::string_view what);

/// Returns the backup of a shard that the set names. It does not read the backup's files. The message of an
/// error names the set and the shard. Outcomes:
///   NotFound: the directory is missing, or has the backup no more.
///   DataLoss: files of the backup are missing, or have another size.
///   Others: as for ListBackups.
absl::StatusOr<BackupInfo> FindBackup(const std::string& dir, const BackupSet& set, std::size_t shard);

/// Returns OK if the set is of this cluster, with the same shards and slots. FailedPrecondition: it is not.
absl::Status CheckIsOf(const BackupSet& set, const Topology& topology);

/// Returns a status with the set and the shard before its message.
absl::Status InSet(const BackupSet& set, std::size_t shard, const absl::Status& status);

}  // namespace remora::kvctl
