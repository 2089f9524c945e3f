// The commands of backups for sets of a cluster (backup_set.h).
#pragma once

#include "client/cluster/cluster_client.h"
#include "store/base/clock.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

/// Has all servers of the topology make a backup, side by side, and writes the file of the set to --to.
Outcome BackUpSet(ClusterClient& client, const Arguments& arguments, const Clock& clock);

/// Returns whether the directory of --from has sets. If it cannot be listed, the commands of one server say
/// so.
bool HasSets(const Arguments& arguments);

/// Returns the failure of a command of one server. If --from is a cluster's, where no set was made yet, it
/// says so.
Outcome WithoutSet(const Arguments& arguments, Outcome failure);

/// Lists the sets in --from.
Outcome ListBackupSets(const Arguments& arguments);
/// Reads all backups of a set.
Outcome CheckSet(const Arguments& arguments, const Clock& clock);
/// Makes a directory with the data directory of each shard, and the topology, of a set.
Outcome RestoreSet(const Arguments& arguments, const Clock& clock);

}  // namespace remora::kvctl
