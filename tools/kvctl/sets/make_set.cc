// backup --topology: one backup of each shard, and the file of the set.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/cluster/topology.h"
#include "rdma/unique_fd.h"
#include "store/backup.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "tools/command_line/say.h"
#include "tools/kvctl/sets/backup_set.h"
#include "tools/kvctl/sets/commands.h"

namespace remora::kvctl {
namespace {

/// Rejects a topology of which no set can be made.
Outcome CheckTopologyOfSet(const Topology& topology, const std::string& file) {
  if (topology.cluster() == 0) {
    return {EX_DATAERR, absl::StrCat(file,
                                     " names no cluster, as it is of version 1, and a set needs one; "
                                     "write a file with kvctl cluster init")};
  }
  for (const ShardPlace& shard : topology.shards()) {
    if (!IsNameOfSets(shard.name)) continue;
    return {EX_DATAERR, absl::StrCat("shard ", shard.name,
                                     ": sets have files of this name beside the shards; give it another")};
  }
  return {};
}

/// Keeps other makers of sets away from the directory as long as the descriptor is open.
absl::StatusOr<rdma::UniqueFd> LockSets(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", AbslView(kSetLock));
  rdma::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!fd) return FaultOfFile(errno, absl::StrCat("sets: cannot make ", path));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  return absl::AlreadyExistsError(
      absl::StrCat("sets: another kvctl makes a set in ", dir, "; wait until that is done"));
}

/// Returns OK if the directory has a directory of backups for each shard.
absl::Status CheckPlaces(const std::string& dir, const Topology& topology) {
  for (const ShardPlace& shard : topology.shards()) {
    const std::string own = absl::StrCat(dir, "/", shard.name);
    const absl::Status status = DataDir::OpenToRead(own, kBackupDir).status();
    // The server makes a backup right now.
    if (status.ok() || absl::IsAlreadyExists(status)) continue;
    return absl::Status(status.code(),
                        absl::StrCat("shard ", shard.name, ": ", own,
                                     " is to be the --backup_dir of its server: ", status.message()));
  }
  return absl::OkStatus();
}

/// Finds the backup of a shard that its server has made. Waits as long as the server makes another one.
absl::Status AwaitBackup(const std::string& dir, const BackupSet& set, std::size_t shard) {
  constexpr std::chrono::milliseconds kPauseOfWait{100};
  for (bool is_said = false;;) {
    const absl::Status found = FindBackup(dir, set, shard).status();
    if (!absl::IsAlreadyExists(found)) return found;
    if (!std::exchange(is_said, true)) {
      command_line::SayError(absl::StrCat("kvctl: backup: ", found.message(), "; waiting until it is done"));
    }
    std::this_thread::sleep_for(kPauseOfWait);
  }
}

/// Deletes the files of older sets of which a shard has no backup any more.
void ForgetOldSets(const std::string& dir, const BackupSet& newest) {
  const absl::StatusOr<std::vector<std::uint32_t>> numbers = ListSets(dir);
  if (!numbers.ok()) return;
  for (const std::uint32_t number : *numbers) {
    if (number >= newest.number) continue;
    const absl::StatusOr<BackupSet> set = ReadBackupSet(dir, number);
    if (!set.ok()) continue;
    for (std::size_t i = 0; i < set->backups.size(); ++i) {
      if (!absl::IsNotFound(FindBackup(dir, *set, i).status())) continue;
      // The directory of a shard of another division may be mounted at other times.
      if (!ListBackups(absl::StrCat(dir, "/", set->topology.shards()[i].name)).ok()) continue;
      ::unlink(PathOfSet(dir, number).c_str());
      break;
    }
  }
}

}  // namespace

Outcome BackUpSet(ClusterClient& client, const Arguments& arguments, const Clock& clock) {
  const Topology& topology = client.topology();
  const std::string& dir = arguments.to;
  if (Outcome outcome = CheckTopologyOfSet(topology, arguments.topology_file); Failed(outcome))
    return outcome;
  // First: no lock file is to be made in another directory.
  if (const absl::Status places = CheckPlaces(dir, topology); !places.ok()) return FromOffline(places);
  const absl::StatusOr<rdma::UniqueFd> lock = LockSets(dir);
  if (!lock.ok()) return FromOffline(lock.status());

  std::vector<BackupInfo> backups;
  if (Outcome outcome = BackUpAll(client, /*waits=*/true, clock, &backups); Failed(outcome)) return outcome;

  const absl::StatusOr<std::vector<std::uint32_t>> numbers = ListSets(dir);
  if (!numbers.ok()) return FromOffline(numbers.status());
  if (!numbers->empty() && numbers->back() == std::numeric_limits<std::uint32_t>::max()) {
    return {EX_CONFIG, absl::StrCat(PathOfSet(dir, numbers->back()),
                                    " has the last number that a set may have; move the file away")};
  }
  const BackupSet set{numbers->empty() ? 1 : numbers->back() + 1, clock.UnixMillis() / 1000, topology,
                      std::move(backups)};
  for (std::size_t i = 0; i < set.backups.size(); ++i) {
    const absl::Status found = AwaitBackup(dir, set, i);
    if (absl::IsNotFound(found)) return {EX_CONFIG, std::string(found.message())};
    if (!found.ok()) return FromOffline(found);
  }
  if (const absl::Status written = WriteBackupSet(dir, set); !written.ok()) return FromOffline(written);
  ForgetOldSets(dir, set);
  return WriteOutput(SetLines(set), absl::StrCat("set ", set.number, " is made"));
}

}  // namespace remora::kvctl
