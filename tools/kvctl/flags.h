// kvctl's commands, and their flags.
#pragma once

#include "tools/command_line/command_line.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

/// Flags that say how a server is reached.
inline constexpr const char* kServerFlags[] = {"--server", "--timeout",  "--token_file",
                                               "--tls_ca", "--tls_cert", "--tls_key"};

/// Adds all commands and flags. They fill `arguments`, which must outlive the command line.
void AddFlags(command_line::CommandLine& line, Arguments* arguments);

}  // namespace remora::kvctl
