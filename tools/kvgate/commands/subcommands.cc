#include "tools/kvgate/commands/subcommands.h"

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/command_table.h"

namespace remora::kvgate {

const Subcommand* FindSubcommand(Call& call, std::span<const Subcommand> all) {
  for (const Subcommand& subcommand : all) {
    if (!IsWord(call.argument(1), subcommand.name)) continue;
    if (FitsArity(subcommand.arity, call.request.size())) return &subcommand;
    call.reply.Error(WrongArity(absl::StrCat(call.command->name, "|", AbslView(subcommand.name))));
    return nullptr;
  }
  call.reply.Error(UnknownSubcommand(call.argument(1), call.command->name));
  return nullptr;
}

}  // namespace remora::kvgate
