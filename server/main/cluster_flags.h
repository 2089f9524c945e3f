// The flags of kvserver about a configuration in etcd.
#pragma once

#include "absl/status/status.h"
#include "server/main/flags.h"
#include "tools/command_line/command_line.h"

namespace remora {

void AddClusterFlags(command_line::CommandLine& line, Flags* flags);

/// Takes over what the flags say of etcd. REQUIRES: TakeReplication is done. InvalidArgument: a flag is
/// missing, or two contradict each other.
absl::Status TakeCluster(Flags* flags);

/// Reads the files about etcd, and the token of --replication_token_file. Errors are those of ReadEtcdFiles
/// and ReadReplicationToken.
absl::Status ReadClusterSecrets(Flags* flags);

}  // namespace remora
