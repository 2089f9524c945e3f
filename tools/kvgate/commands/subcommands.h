// Commands whose first argument names what they do.
#pragma once

#include <span>
#include <string_view>

#include "tools/kvgate/call.h"

namespace remora::kvgate {

struct Subcommand {
  std::string_view name;
  int arity;  // with both names; negative: at least so many
  void (*run)(Call&);
};

/// Returns the one that the first argument names. Null after an error, which it sets: there is none, or the
/// request has another number of arguments. REQUIRES: the request has an argument.
const Subcommand* FindSubcommand(Call& call, std::span<const Subcommand> all);

}  // namespace remora::kvgate
