// The commands of each file of this folder.
#pragma once

#include <span>

#include "tools/kvgate/command_table.h"

namespace remora::kvgate {

std::span<const Command> ClusterCommands();
std::span<const Command> ConnectionCommands();
std::span<const Command> ConfigCommands();
std::span<const Command> ServerCommands();
std::span<const Command> StringCommands();
std::span<const Command> ManyKeyCommands();
std::span<const Command> NumberCommands();
std::span<const Command> ExpiryCommands();
std::span<const Command> KeyCommands();
std::span<const Command> ObjectCommands();
std::span<const Command> PubsubCommands();
std::span<const Command> ScanCommands();
std::span<const Command> TransactionCommands();

}  // namespace remora::kvgate
