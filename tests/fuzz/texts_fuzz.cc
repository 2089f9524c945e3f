// Texts of people and other programs: tokens of scans and change feeds, spans of time, addresses, secrets and
// the files of them, files of options, and topologies.
#include <optional>
#include <string>
#include <string_view>

#include "client/cluster/topology.h"
#include "client/session/credentials.h"
#include "rdma/address.h"
#include "server/connection/auth_tokens.h"
#include "store/base/secret_text.h"
#include "store/format/types/duration_text.h"
#include "store/format/types/scan_range.h"
#include "store/format/wire/resume_token.h"
#include "tests/fuzz/input.h"
#include "tools/command_line/config_file.h"

namespace {

/// Checks that a topology which is read is written as the same.
void CheckTopology(std::string_view text) {
  const auto topology = remora::Topology::Parse(text, "file");
  if (!topology.ok()) return;
  const std::string written = topology->ToText();
  const auto again = remora::Topology::Parse(written, "file");
  FUZZ_CHECK(again.ok() && again->ToText() == written);
  FUZZ_CHECK(!topology->shards().empty() && topology->shards().size() <= remora::kMaxShards);
  FUZZ_CHECK(topology->ShardOf(text) < topology->shards().size());
  FUZZ_CHECK(topology->ShardOf(text) == again->ShardOf(text));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const std::uint8_t which = input.Take<std::uint8_t>() % 10;
  const std::string_view text = input.rest();
  if (which == 0) {
    if (const auto range = ReadScanToken(text)) FUZZ_CHECK(MakeScanToken(*range) == text);
  } else if (which == 1) {
    if (const auto place = ReadChangeToken(text)) FUZZ_CHECK(MakeChangeToken(*place) == text);
  } else if (which == 2) {
    std::string why;
    const auto ttl = ParseTtl(text, &why);
    FUZZ_CHECK(ttl.has_value() || !why.empty());
  } else if (which == 3) {
    const auto address = rdma::ParseAddress(text);
    if (!address.ok()) return 0;
    // Its own text is the same address.
    const auto again = rdma::ParseAddress(address->ToString());
    FUZZ_CHECK(again.ok() && again->ToString() == address->ToString());
  } else if (which == 4) {
    // A token of any content, with a checksum that fits: a checksum alone does not keep it out.
    std::string bytes(text);
    const std::uint64_t checksum = HashValue(bytes.data(), bytes.size());
    bytes.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
    const std::string token = scan_token::Encode64(bytes);
    if (const auto range = ReadScanToken(token)) FUZZ_CHECK(MakeScanToken(*range) == token);
  } else if (which == 5) {
    const auto secret = SecretOfToken(text);
    FUZZ_CHECK(!secret.ok() || secret->empty() ||
               (secret->size() >= kMinSecretSize && secret->size() <= kMaxSecretSize));
  } else if (which == 6) {
    const auto tokens = ParseTokens(text);
    if (!tokens.ok()) return 0;
    FUZZ_CHECK(!tokens->empty() && tokens->size() <= kMaxTokens);
    for (const Token& token : *tokens) {
      FUZZ_CHECK(!token.name.empty() && token.name.size() <= kMaxTokenName);
      FUZZ_CHECK(token.secret.size() >= kMinSecretSize && token.secret.size() <= kMaxSecretSize);
      FUZZ_CHECK(token.max_connections <= kMaxTokenLimit && token.max_requests_per_second <= kMaxTokenLimit);
    }
  } else if (which == 9) {
    CheckTopology(text);
  } else if (which == 8) {
    std::string error;
    const auto lines = command_line::ParseConfig(text, &error);
    FUZZ_CHECK(lines.has_value() || !error.empty());
    if (!lines) return 0;
    // Written anew, they say the same.
    std::string written;
    for (const auto& line : *lines) written += command_line::FormatConfigLine(line.key, line.value) + "\n";
    const auto again = command_line::ParseConfig(written, &error);
    FUZZ_CHECK(again.has_value() && again->size() == lines->size());
    for (std::size_t i = 0; i < lines->size(); ++i) {
      FUZZ_CHECK((*again)[i].key == (*lines)[i].key && (*again)[i].value == (*lines)[i].value);
    }
  } else {
    FUZZ_CHECK(scan_token::Decode64(scan_token::Encode64(text)) == std::string(text));
  }
  return 0;
}
