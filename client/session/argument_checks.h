// Checks of the arguments of calls. InvalidArgument: the message says which one is out of bounds.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "store/format/types/bounds.h"
#include "store/format/types/write_options.h"

namespace remora {

absl::Status CheckKey(std::string_view key);
absl::Status CheckTtl(std::chrono::milliseconds ttl);
absl::Status CheckDurability(std::optional<Durability> durability);
/// Checks a write without a value.
absl::Status CheckWrite(std::string_view key, const Condition& condition,
                        std::optional<Durability> durability);
absl::Status CheckPut(std::string_view key, std::string_view value, const PutOptions& options);
/// Checks the size of bytes to append. OutOfRange: they exceed a message. Store::Append says the same.
absl::Status CheckAppended(std::string_view bytes);

}  // namespace remora
