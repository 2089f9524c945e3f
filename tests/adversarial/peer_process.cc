// A hostile client in a process of its own, to be frozen or killed.
//   hostile_peer freeze|stream ADDRESS     says "ready" once it is at it
// freeze: holds space for a large value, and stops. stream: writes without end.
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "tests/adversarial/raw_peer.h"

int main(int argc, char** argv) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 3) return 64;
  const std::string_view role = argv[1];
  const auto where = rdma::ParseAddress(argv[2]);
  if (!where.ok()) return 64;
  const auto peer = RawPeer::At(*where);
  if (!peer->Join(HelloRequest())) return 1;
  std::uint64_t id = 0;
  if (role == "freeze") {
    Request reserve;
    reserve.request_id = ++id;
    reserve.operation = Operation::kReserve;
    reserve.key_size = 6;
    reserve.value_size = 1 << 20;
    const auto answer = peer->Ask(reserve);
    if (!answer || answer->reply.status != ReplyStatus::kOk) return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  if (role == "freeze") raise(SIGSTOP);
  const std::string value(50'000, 'v');
  while (peer->Put(++id, "of one who is killed", value)) {
  }
  return 1;
}
