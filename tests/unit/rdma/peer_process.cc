// The other process of a transport test, made to be killed:
//   rdma_test_peer serve ADDRESS      serves as transport_service.h; prints the address it took
//   rdma_test_peer connect ADDRESS    connects, prints "connected", then does nothing for ever
// An ADDRESS is local:///PATH, or verbs://HOST or tcp://HOST to serve at any port.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "rdma/transport.h"
#include "tests/unit/rdma/transport_service.h"

namespace remora::rdma {
namespace {

absl::StatusOr<Address> ServiceAddress(std::string_view text) {
  for (const auto& [scheme, kind] :
       {std::pair<std::string_view, TransportKind>("verbs://", TransportKind::kVerbs),
        std::pair<std::string_view, TransportKind>("tcp://", TransportKind::kTcp),
        std::pair<std::string_view, TransportKind>("tls://", TransportKind::kTcp)}) {
    if (!text.starts_with(scheme)) continue;
    return Address{.kind = kind,
                   .host = std::string(text.substr(scheme.size())),
                   .port = 0,
                   .path = "",
                   .tls = scheme == "tls://"};
  }
  return ParseAddress(text);
}

void Say(std::string_view text) {
  std::printf("%s\n", std::string(text).c_str());
  std::fflush(stdout);
}

absl::Status ServeForEver(std::string_view address_text) {
  const SteadyClock clock{};
  const absl::StatusOr<Address> address = ServiceAddress(address_text);
  if (!address.ok()) return address.status();
  absl::StatusOr<std::unique_ptr<Service>> service = Service::Start(*address, QueueLimits(), clock);
  if (!service.ok()) return service.status();
  Say((*service)->address().ToString());
  (*service)->Serve(-1);
  return absl::OkStatus();
}

absl::Status ConnectForEver(std::string_view address_text) {
  const SteadyClock clock{};
  const TimePoint deadline = clock.Now() + std::chrono::minutes(1);
  const absl::StatusOr<Address> address = ParseAddress(address_text);
  if (!address.ok()) return address.status();
  absl::StatusOr<std::unique_ptr<ClientConnection>> connection =
      Dial(*address, QueueLimits(), clock, deadline, TestTls());
  if (!connection.ok()) return connection.status();
  const std::byte mode{static_cast<unsigned char>(ServiceMode::kServe)};
  if (const absl::Status status = (*connection)->Connect({&mode, 1}, deadline); !status.ok()) return status;
  Say("connected");
  for (;;) pause();
}

}  // namespace
}  // namespace remora::rdma

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves nobody behind
  if (argc != 3) return 2;
  const bool serve = std::strcmp(argv[1], "serve") == 0;
  const absl::Status status =
      serve ? remora::rdma::ServeForEver(argv[2]) : remora::rdma::ConnectForEver(argv[2]);
  std::fprintf(stderr, "rdma_test_peer: %s\n", status.ToString().c_str());
  return 1;
}
