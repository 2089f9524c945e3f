// A server: whether it is reached, and whether it takes writes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "store/base/clock.h"
#include "tools/kvctl/doctor/check.h"

namespace remora::doctor {

struct ServerFacts {
  absl::Status status;  // of the first step that failed
  bool connected = false;
  double connect_us = 0;
  double round_trip_us = 0;                                     // the median of some
  std::map<std::string, std::uint64_t, std::less<>> metrics{};  // one-sided READs
};

/// Makes a connection; with a clock that lives as long as the client.
using Connector = std::function<absl::StatusOr<std::unique_ptr<Client>>(const Clock&)>;

/// Connects, pings, and READs the metrics.
ServerFacts ReadServer(const Connector& connect);

/// Adds server, and if it answers round_trip, loading, writes and space. `facts`: nothing if there was no
/// answer in time. `address`: in the commands that the remedies name.
void JudgeServer(const std::optional<ServerFacts>& facts, const std::string& address, Checks* checks);

}  // namespace remora::doctor
