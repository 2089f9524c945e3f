// Flags that say how etcd is reached, and which shard is meant: kvserver and `kvctl cluster members` have
// them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/cluster/config_store.h"
#include "tools/command_line/command_line.h"

namespace remora {

struct EtcdFlags {
  ConfigStoreOptions store{};  // without endpoints: no etcd is meant
  std::string password_file{};
};

/// Adds --etcd, and --etcd_user, --etcd_password_file and --etcd_ca, which need it. Returns --etcd. `purpose`
/// is the sentence of its help that says what the program does there. `flags` outlives the command line.
command_line::Option AddEtcdFlags(command_line::Command command, EtcdFlags* flags,
                                  const std::string& purpose);

/// InvalidArgument: one of the flags is missing.
absl::Status CheckEtcdFlags(const EtcdFlags& flags);

/// Reads the password, and looks whether the file of --etcd_ca can be read.
///
/// - InvalidArgument: a file is missing, has no password, or is no regular file.
/// - PermissionDenied: this user cannot read it, or others could read or change the password.
/// - ResourceExhausted: the process has no descriptor left.
absl::Status ReadEtcdFiles(EtcdFlags* flags);

/// Returns the fault of a value of --shard. Empty: it has none.
std::string FaultOfShard(const std::string& text);

}  // namespace remora
