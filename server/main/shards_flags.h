// The flags about several servers on one host: --shards starts them, and divides the other flags among them.
//
//   flag                   of shard I of N
//   --listen=local:///P    local:///P.I
//   --listen=tcp://H:P     tcp://H:(P + I); tls:// and verbs:// likewise
//   --http=H:P             H:(P + I)
//   --data_dir, --backup_dir   the folder I in it
//   --memory               an N-th
//   --commit_log           its default: an N-th; a size that is given: each has it
//   --change_log           each has it
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/main/flags.h"
#include "tools/command_line/command_line.h"

namespace remora {

/// Adds --shards and --topology.
void AddShardsFlags(command_line::CommandLine& line, Flags* flags);

/// Checks the flags, and gives those of one shard its part: with --shards and --shard, the process is the
/// server of that shard. REQUIRES: all other flags are taken over. InvalidArgument: a flag is not for several
/// servers, or a part of it is out of bounds.
absl::Status TakeShards(const command_line::CommandLine& line, Flags* flags);

/// Returns whether the process is to start the servers of --shards, and to serve nothing itself.
bool StartsShards(const Flags& flags);

/// Returns the arguments that each server gets beside its --shard: those of this process, and some settings
/// of its file of --config. These say where a server is, and which keys and data it has. The file may change
/// while the servers run, and one that is started again must still be the server that the topology names.
/// `argv`: the flags were read from it.
std::vector<std::string> ArgumentsOfServers(int argc, char** argv, const Flags& flags);

/// Returns the addresses of each server, as Client::Connect takes them. REQUIRES: StartsShards.
std::vector<std::string> ShardAddresses(const Flags& flags);

}  // namespace remora
