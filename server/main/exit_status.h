// The exit statuses of kvserver for what fails at its start; `kvserver --help` lists them.
#pragma once

#include "absl/status/status.h"

namespace remora {

/// For the codes of ServerStore::Open.
int StoreExitStatus(const absl::Status& status);
/// For the codes of ReadTokens.
int TokensExitStatus(const absl::Status& status);
/// For the codes of rdma::Listen, Listener::RegisterRead and MonitorService::Start.
int ListenExitStatus(const absl::Status& status);

}  // namespace remora
