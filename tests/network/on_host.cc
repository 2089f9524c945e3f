// Loaded before all else (LD_PRELOAD), puts a client on one host of the guest's (tools/rdma-guest --hosts=N):
// each connection begins at the address that REMORA_ON_HOST says. All of those hosts are in one network
// namespace, where the kernel would take the nearest way, which is inside of the machine.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdlib>

extern "C" int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms) {
  using ResolveAddr = int(rdma_cm_id*, sockaddr*, sockaddr*, int);
  static auto* const resolve_addr = reinterpret_cast<ResolveAddr*>(dlsym(RTLD_NEXT, "rdma_resolve_addr"));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  const char* const address = std::getenv("REMORA_ON_HOST");
  if (source != nullptr || address == nullptr || inet_pton(AF_INET, address, &here.sin_addr) != 1) {
    errno = EINVAL;
    return -1;
  }
  return resolve_addr(id, reinterpret_cast<sockaddr*>(&here), destination, timeout_ms);
}
