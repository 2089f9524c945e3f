// Bytes of a client of kvgate. Each way to cut them says the same, and the parser keeps no more than its
// bounds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/input.h"
#include "tools/kvgate/resp/request.h"
#include "tools/kvgate/resp/request_parser.h"

namespace {

using remora::kvgate::Parsed;
using remora::kvgate::Request;
using remora::kvgate::RequestParser;

constexpr std::size_t kMaxBytes = 256;

/// All commands and the error, if the input comes in pieces of this size.
std::string Transcript(std::string_view input, std::size_t piece_size) {
  RequestParser parser(kMaxBytes);
  Request request;
  std::string said;
  while (!input.empty()) {
    std::string_view piece = input.substr(0, piece_size);
    input.remove_prefix(piece.size());
    for (;;) {
      const Parsed parsed = parser.Parse(&piece, &request);
      // An inline command is bounded by its line.
      FUZZ_CHECK(request.bytes() <= kMaxBytes + RequestParser::kMaxLine);
      if (parsed == Parsed::kNeedsMore) break;
      if (parsed == Parsed::kError) return said + parser.error();
      FUZZ_CHECK((parsed == Parsed::kOversized) == request.empty());
      for (std::size_t i = 0; i < request.size(); ++i)
        said += std::to_string(request[i].size()) + ":" + std::string(request[i]);
      said += '\n';
    }
    FUZZ_CHECK(piece.empty());
  }
  return said;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  remora::Input input(data, size);
  const std::size_t piece_size = 1 + input.Take<std::uint8_t>();
  const std::string_view bytes = input.rest();
  FUZZ_CHECK(Transcript(bytes, piece_size) == Transcript(bytes, bytes.size() + 1));
  return 0;
}
