// The running server that a program measures: its flags, the options of its clients, and its records.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/kvbench/load/records.h"
#include "client/client.h"
#include "tools/command_line/command_line.h"

namespace remora::bench {

struct ServerFlags {
  std::string server;
  std::string token_file;
};

/// Adds --server and --token_file. `flags` outlives the line.
void AddServerFlags(command_line::CommandLine& line, ServerFlags& flags);

/// Returns the options of a client: defaults, and the token. Errors: those of ReadTokenFile.
absl::StatusOr<ClientOptions> OptionsOf(const ServerFlags& flags);

/// Puts the first `records` of kvbench's records, rounded up to a multiple of 16. Returns the first error of
/// a put.
absl::Status PutRecords(Client& client, ValueMaker& values, std::uint64_t records);

}  // namespace remora::bench
