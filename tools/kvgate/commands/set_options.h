// Options of SET and GETEX.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tools/kvgate/commands/expiry.h"
#include "tools/kvgate/resp/request.h"

namespace remora::kvgate {

struct SetOptions {
  enum class Only : std::uint8_t { kAlways = 1, kIfAbsent = 2, kIfPresent = 3 };
  Only only = Only::kAlways;
  bool gets = false;       // GET: the reply is the old value
  bool keeps_ttl = false;  // KEEPTTL
  bool persists = false;   // PERSIST
  std::optional<TimeForm> time_form{};
  std::string_view time{};  // of that form, as it was given
};

/// Reads the options of SET behind its value. Nothing: a syntax error.
std::optional<SetOptions> ParseSetOptions(const Request& request);
/// Reads the options of GETEX behind its key. Nothing: a syntax error.
std::optional<SetOptions> ParseGetExOptions(const Request& request);

}  // namespace remora::kvgate
