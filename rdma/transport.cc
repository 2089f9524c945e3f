#include "rdma/transport.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/local/local.h"
#include "rdma/local/socket.h"
#include "rdma/tcp/stream/socket.h"
#include "rdma/tcp/tcp.h"
#include "rdma/verbs/verbs.h"
#include "store/base/standard_streams.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

class OwnedMessages final : public Registration {
 public:
  OwnedMessages(std::unique_ptr<std::byte[]> bytes, std::unique_ptr<Registration> registration)
      : Registration(registration->bytes(), registration->local_key(), {}),
        bytes_(std::move(bytes)),
        registration_(std::move(registration)) {}

 private:
  const std::unique_ptr<std::byte[]> bytes_;
  const std::unique_ptr<Registration> registration_;  // goes before the bytes
};

}  // namespace

absl::StatusOr<std::unique_ptr<Registration>> ServerConnection::ProvideMessages(std::size_t size) {
  auto bytes = std::make_unique<std::byte[]>(size);
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Registration> registration,
                          RegisterMessages(std::span(bytes.get(), size)));
  return std::make_unique<OwnedMessages>(std::move(bytes), std::move(registration));
}

absl::StatusOr<std::unique_ptr<ClientConnection>> Dial(const Address& address, const QueueLimits& limits,
                                                       const Clock& clock, TimePoint deadline,
                                                       const ClientTls& tls) {
  REMORA_RETURN_IF_ERROR(OccupyStandardStreams());
  if (!address.tls && !tls.files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "connect: the certificates for TLS (tls_ca, tls_cert) are for a tls:// address, and this is ",
        address.ToString()));
  }
  switch (address.kind) {
    case TransportKind::kVerbs:
      return DialVerbs(address, limits, clock, deadline);
    case TransportKind::kTcp:
      return DialTcp(address, limits, clock, tls);
    case TransportKind::kLocal:
      break;
  }
  return DialLocal(address, limits, clock, deadline);
}

absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& address, const QueueLimits& limits,
                                                 const Clock& clock, MemoryWindows windows,
                                                 std::uint32_t tcp_threads, const LocalAccess& access,
                                                 std::shared_ptr<ServerTls> tls) {
  switch (address.kind) {
    case TransportKind::kVerbs:
      return ListenVerbs(address, limits, windows);
    case TransportKind::kTcp:
      return ListenTcp(address, limits, clock, tcp_threads, std::move(tls));
    case TransportKind::kLocal:
      break;
  }
  return ListenLocal(address, limits, clock, access);
}

namespace {

struct BoundSocket {
  const Address* address;
  TcpSocketAddress socket;
};

// Checks that the sockets of one address are free, and belong to none of `others`. Appends them there.
absl::Status CheckFreeTcp(const Address& address, std::vector<BoundSocket>* others) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<UniqueFd> sockets, BindAtTcp(address));
  std::vector<BoundSocket> own;
  for (const UniqueFd& socket : sockets) {
    own.push_back({&address, LocalAddressOf(socket.get())});
    for (const BoundSocket& other : *others) {
      if (!Overlap(own.back().socket, other.socket)) continue;
      return absl::InvalidArgumentError(absl::StrCat("listening at ", address.ToString(), ": ",
                                                     own.back().socket.ToString(), " belongs to ",
                                                     other.address->ToString(), " already; leave one out"));
    }
  }
  others->insert(others->end(), own.begin(), own.end());
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFree(std::span<const Address> addresses) {
  std::vector<BoundSocket> others;
  for (const Address& address : addresses) {
    switch (address.kind) {
      case TransportKind::kTcp:
        REMORA_RETURN_IF_ERROR(CheckFreeTcp(address, &others));
        break;
      case TransportKind::kLocal:
        REMORA_RETURN_IF_ERROR(CheckSocketPath(address.path));
        break;
      case TransportKind::kVerbs:
        break;  // only Listen knows
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUsable(std::span<const Address> addresses) {
  std::vector<BoundSocket> others;
  for (const Address& address : addresses) {
    absl::Status usable;
    if (address.kind == TransportKind::kLocal) usable = CheckSocketFolder(address.path);
    if (address.kind == TransportKind::kTcp) {
      usable = CheckFreeTcp(address, &others);
      if (absl::IsAlreadyExists(usable)) continue;
    }
    REMORA_RETURN_IF_ERROR(usable);
  }
  return absl::OkStatus();
}

absl::Status ClientConnection::PostFind(std::uint64_t, const Sge&, const Sge&, const RemoteRegion&,
                                        std::uint64_t, std::uint32_t, FoundRecord*) {
  return absl::UnimplementedError("find: this transport has no FIND; READ the bucket");
}

absl::Status CheckOffer(const SharedMemory& memory) {
  if (memory.writers() != SharedMemory::Writers::kPeers) {
    return absl::InvalidArgumentError(
        "offer: memory for the server to WRITE must be made with Writers::kPeers");
  }
  if (memory.bytes().size() <= kMaxOfferedSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "offer: ", memory.bytes().size(), " bytes for the server to WRITE; the most are ", kMaxOfferedSize));
}

SharedBytes SharedBytesOf(TransportKind kind, const QueueLimits& limits) {
  switch (kind) {
    case TransportKind::kVerbs:
      return SharedBytesOfVerbs();
    case TransportKind::kTcp:
      return {};  // sockets' buffers are the system's
    case TransportKind::kLocal:
      break;
  }
  return SharedBytesOfLocal(limits);
}

Descriptors DescriptorsOf(TransportKind kind) {
  switch (kind) {
    case TransportKind::kVerbs:
      return {.listener = 16,
              .connection = 0};  // channels, counters and the device's own, for all connections
    case TransportKind::kTcp:
      return DescriptorsOfTcp();
    case TransportKind::kLocal:
      break;
  }
  return DescriptorsOfLocal();
}

}  // namespace remora::rdma
