#include "server/main/change_log_flag.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "store/options.h"
#include "tools/command_line/number_text.h"

namespace remora {
namespace {

std::string SizeText(std::uint64_t size) {
  return command_line::NumberText(command_line::NumberRule::Form::kSize,
                                  static_cast<command_line::Number>(size));
}

}  // namespace

void AddChangeLogFlag(command_line::CommandLine& line, Flags* flags) {
  line.Add("--change_log", flags->server.store.change_log_bytes,
           "With --durability=memory: keep the last changes for watches, in so many bytes beside --memory. A "
           "watch that falls further behind ends. 0: none, and no watches")
      .Size()
      .ShowDefault()
      .TypeName("SIZE");
}

absl::Status CheckChangeLogFlag(const Flags& flags) {
  const StoreOptions& store = flags.server.store;
  const std::uint64_t size = store.change_log_bytes;
  if (size == 0) return absl::OkStatus();
  if (store.durability != Durability::kMemory) {
    return absl::InvalidArgumentError(
        "--change_log is for --durability=memory: a data directory has the changes in a log; leave it out");
  }
  if (size >= kMinChangeLogBytes && size <= kMaxMemorySize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--change_log: ", SizeText(size), " is out of bounds; give a size from ",
                   SizeText(kMinChangeLogBytes), " to ", SizeText(kMaxMemorySize), ", or 0 for none"));
}

}  // namespace remora
