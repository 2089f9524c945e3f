// The addresses at which a gate takes clients: redis://HOST:PORT, rediss://HOST:PORT and redis:///PATH.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/address.h"

namespace remora::kvgate {

/// An address of a Unix socket, of a port, or of a port with TLS (rediss://).
struct ListenAddress {
  rdma::Address address;  // kTcp or kLocal
  bool has_tls = false;
};

/// Choice of the addresses to which other machines may connect.
enum class Reach : std::uint8_t {
  kLoopback = 1,
  kWithTls = 2,  // where there is TLS: clients show a token or a certificate
  kAll = 3,
};

/// Reads an address. InvalidArgument: the text is none.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

/// Listening sockets of one address. The destructor closes them, and removes the file of a Unix socket.
///
/// Thread safety: none.
class Listener {
 public:
  /// Listens. Outcomes:
  ///   InvalidArgument: other machines could connect, and may not.
  ///   AlreadyExists: the port or the socket is in use.
  ///   PermissionDenied: this user may not listen there.
  ///   Unavailable: the host does not exist, or is not this machine.
  ///   FailedPrecondition: the socket cannot be made; the message says why.
  static absl::StatusOr<std::unique_ptr<Listener>> Listen(const ListenAddress& listen, Reach reach);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::vector<int>& fds() const { return fds_; }
  bool has_tls() const { return has_tls_; }

 private:
  explicit Listener(bool has_tls) : has_tls_(has_tls) {}
  absl::Status ListenAtPath(const std::string& path);
  absl::Status ListenAtHost(const rdma::Address& address, Reach reach);

  const bool has_tls_;
  std::vector<int> fds_;
  std::string path_;  // of the file to remove; empty: none
};

/// Returns how a socket's own end (`peer`: the other one) is shown: 127.0.0.1:6379, or PATH:0.
std::string DescribeSocket(int fd, bool peer);

}  // namespace remora::kvgate
