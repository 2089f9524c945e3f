// Several addresses of one server, in one text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/address.h"

namespace remora::rdma {

/// Most addresses of a list.
inline constexpr std::size_t kMaxAddresses = 16;

/// Reads `ADDRESS[,ADDRESS]...`, each in a form of ParseAddress, and keeps their order. With `auto:` before
/// them, the order becomes verbs, local, TCP; addresses of one transport keep theirs. A comma ends an address
/// only where a scheme follows, so the path of a socket may contain commas.
///
/// - InvalidArgument: an address is malformed, is missing, or exceeds kMaxAddresses.
absl::StatusOr<std::vector<Address>> ParseAddresses(std::string_view text);

/// Returns the transport of an address, and how it serves READs, in words for people.
std::string DescriptionOf(const Address& address);

}  // namespace remora::rdma
