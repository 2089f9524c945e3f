// The settings of a server, and the topology of its cluster. They come in pieces
// (store/format/wire/messages.h, Operation::kSettings).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/session/session.h"

namespace remora {

/// Does the work of Client::Settings.
///
///   FailedPrecondition: the server does not tell them.
///   DataLoss: its replies contradict each other.
///   Unavailable: they changed again and again meanwhile.
absl::StatusOr<std::string> ReadSettings(Session& session);

/// Does the work of Client::ReadTopology (Operation::kTopology). Errors are alike.
absl::StatusOr<std::string> ReadTopologyText(Session& session);

}  // namespace remora
