#include "bench/ratios/running_server.h"

#include <array>
#include <cstddef>

#include "client/session/credentials.h"
#include "store/base/status_macros.h"

namespace remora::bench {

void AddServerFlags(command_line::CommandLine& line, ServerFlags& flags) {
  line.Add("--server", flags.server, "verbs://HOST:PORT, tcp://HOST:PORT or local:///PATH").Required();
  line.Add("--token_file", flags.token_file,
           "Auth token, as `kvctl create_token` printed it, for a server that requires one");
}

absl::StatusOr<ClientOptions> OptionsOf(const ServerFlags& flags) {
  ClientOptions options;
  if (!flags.token_file.empty()) {
    REMORA_ASSIGN_OR_RETURN(options.token, ReadTokenFile(flags.token_file));
  }
  return options;
}

absl::Status PutRecords(Client& client, ValueMaker& values, std::uint64_t records) {
  constexpr std::size_t kMany = 16;
  std::array<std::string, kMany> keys, texts;
  std::array<PutRequest, kMany> requests;
  std::array<PutResult, kMany> results;
  for (std::uint64_t first = 0; first < records; first += kMany) {
    for (std::size_t i = 0; i < kMany; ++i) {
      keys[i] = std::string(KeyText(first + i).view());
      texts[i] = std::string(values.Make(first + i, first + i));
      requests[i] = {keys[i], texts[i]};
    }
    REMORA_RETURN_IF_ERROR(client.MultiPut(requests, results));
    for (const PutResult& result : results) REMORA_RETURN_IF_ERROR(result.status);
  }
  return absl::OkStatus();
}

}  // namespace remora::bench
