// import --from and export --to: copies records from a Redis, and to one.
//
// Both go on where they stopped, with the resume token that they print. Then keys that are there stay as they
// are, so that no newer write is undone, unless --overwrite is given. The resume token names the servers
// and the Redis as they were, and a copy does not go on if one of them may have lost records since.
#pragma once

#include <string>

#include "client/cluster/cluster_client.h"
#include "store/base/clock.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

Outcome ImportFromRedis(ClusterClient& client, const Arguments& arguments, const Clock& clock);
Outcome ExportToRedis(ClusterClient& client, const Arguments& arguments, const Clock& clock);

/// Adds to the outcome of a copy that stopped where it stopped, and how it goes on. No resume token: it
/// cannot.
Outcome Stopped(Outcome why, const std::string& counts, const std::string& resume_token);
/// Returns the outcome of a copy that cannot go on: its server or Redis may have lost records that it had
/// before, or does not know the place.
Outcome StartOver(Outcome why);

}  // namespace remora::kvctl
