#include "rdma/address_list.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

constexpr std::string_view kAuto = "auto:";
constexpr std::array<std::string_view, 4> kSchemes = {"verbs://", "local://", "tcp://", "tls://"};

/// Returns the end of the address that begins at `begin`.
std::size_t EndOfAddress(std::string_view text, std::size_t begin) {
  for (std::size_t comma = text.find(',', begin); comma != std::string_view::npos;
       comma = text.find(',', comma + 1)) {
    const std::string_view rest = text.substr(comma + 1);
    const bool is_scheme =
        std::ranges::any_of(kSchemes, [&](std::string_view scheme) { return rest.starts_with(scheme); });
    if (is_scheme) return comma;
  }
  return text.size();
}

int OrderOf(const Address& address) {
  switch (address.kind) {
    case TransportKind::kVerbs:
      return 0;
    case TransportKind::kLocal:
      return 1;
    case TransportKind::kTcp:
      break;
  }
  return 2;
}

}  // namespace

absl::StatusOr<std::vector<Address>> ParseAddresses(std::string_view text) {
  const bool is_auto = text.starts_with(kAuto);
  const std::string_view list = is_auto ? text.substr(kAuto.size()) : text;
  std::vector<Address> addresses;
  for (std::size_t begin = 0; addresses.empty() || begin < list.size();) {
    const std::size_t end = EndOfAddress(list, begin);
    REMORA_ASSIGN_OR_RETURN(Address one, ParseAddress(list.substr(begin, end - begin)));
    if (addresses.size() == kMaxAddresses) {
      return absl::InvalidArgumentError(absl::StrCat("addresses '", absl::Utf8SafeCHexEscape(AbslView(text)),
                                                     "': there are more than ", kMaxAddresses,
                                                     "; leave some out"));
    }
    addresses.push_back(std::move(one));
    begin = end + 1;
  }
  if (is_auto) std::ranges::stable_sort(addresses, {}, OrderOf);
  return addresses;
}

std::string DescriptionOf(const Address& address) {
  switch (address.kind) {
    case TransportKind::kVerbs:
      return "verbs (READs are served by the RDMA device)";
    case TransportKind::kLocal:
      return "local (READs are copies from mapped memory)";
    case TransportKind::kTcp:
      break;
  }
  return absl::StrCat(address.tls ? "tls" : "tcp", " (READs are served by the server's CPU)");
}

}  // namespace remora::rdma
