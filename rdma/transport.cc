#include "rdma/transport.h"

#include "absl/strings/str_cat.h"
#include "rdma/local.h"
#include "rdma/verbs.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
void CpuPause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

absl::StatusOr<std::unique_ptr<Connection>> Dial(const Address& address, const QueueLimits& limits,
                                                 const Clock& clock, TimePoint deadline) {
  if (address.kind == TransportKind::kVerbs) return DialVerbs(address, limits, clock, deadline);
  return DialLocal(address, limits, clock, deadline);
}

absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& address, const QueueLimits& limits,
                                                 const Clock& clock, MemoryWindows windows) {
  if (address.kind == TransportKind::kVerbs) return ListenVerbs(address, limits, clock, windows);
  return ListenLocal(address, limits, clock);
}

absl::Status CheckOffer(const SharedMemory& memory) {
  if (memory.writers() != SharedMemory::Writers::kPeers) {
    return absl::InvalidArgumentError("memory for the server to WRITE must be made with Writers::kPeers");
  }
  if (memory.bytes().size() <= kMaxOfferedSize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(memory.bytes().size(), " bytes for the server to WRITE; the most are ", kMaxOfferedSize));
}

SharedBytes SharedBytesOf(TransportKind kind, const QueueLimits& limits) {
  if (kind == TransportKind::kVerbs) return {};  // the queues are the device's and its driver's
  return SharedBytesOfLocal(limits);
}

absl::StatusOr<std::size_t> PollUntil(Connection& connection, std::span<Completion> out, TimePoint deadline) {
  for (int i = 0; i < kSpins; ++i) {
    if (const std::size_t count = connection.Poll(out); count > 0) return count;
    CpuPause();
  }
  for (;;) {
    REMORA_RETURN_IF_ERROR(connection.Wait(deadline));
    if (const std::size_t count = connection.Poll(out); count > 0) return count;
  }
}

}  // namespace remora::rdma
