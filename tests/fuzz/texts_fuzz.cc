// What people and other programs hand over as text: tokens of scans and change feeds, spans of time,
// addresses.
#include <optional>
#include <string>

#include "rdma/address.h"
#include "store/format/change_token.h"
#include "store/format/scan_range.h"
#include "store/format/ttl_text.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const std::uint8_t which = input.Take<std::uint8_t>() % 6;
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
    // What it says of itself is the same address.
    const auto again = rdma::ParseAddress(address->ToString());
    FUZZ_CHECK(again.ok() && again->ToString() == address->ToString());
  } else if (which == 4) {
    // A token of any content, with a checksum that fits: what a checksum alone does not keep out.
    std::string bytes(text);
    const std::uint64_t checksum = HashValue(bytes.data(), bytes.size());
    bytes.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
    const std::string token = scan_token::Encode64(bytes);
    if (const auto range = ReadScanToken(token)) FUZZ_CHECK(MakeScanToken(*range) == token);
  } else {
    FUZZ_CHECK(scan_token::Decode64(scan_token::Encode64(text)) == std::string(text));
  }
  return 0;
}
