// The addresses at which a gate takes clients: redis://HOST:PORT and redis:///PATH.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/address.h"

namespace remora::kvgate {

/// Reads an address. Its kind is kTcp or kLocal. InvalidArgument: the text is none.
absl::StatusOr<rdma::Address> ParseListenAddress(std::string_view text);

/// Listening sockets of one address. The destructor closes them, and removes the file of a Unix socket.
///
/// Thread safety: none.
class Listener {
 public:
  /// Listens. `beyond_loopback`: other machines may connect. Outcomes:
  ///   InvalidArgument: other machines could connect, and may not.
  ///   AlreadyExists: the port or the socket is in use.
  ///   PermissionDenied: this user may not listen there.
  ///   Unavailable: the host does not exist, or is not this machine.
  ///   FailedPrecondition: the socket cannot be made; the message says why.
  static absl::StatusOr<std::unique_ptr<Listener>> Listen(const rdma::Address& address, bool beyond_loopback);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::vector<int>& fds() const { return fds_; }

 private:
  Listener() = default;
  absl::Status ListenAtPath(const std::string& path);
  absl::Status ListenAtHost(const rdma::Address& address, bool beyond_loopback);

  std::vector<int> fds_;
  std::string path_;  // of the file to remove; empty: none
};

/// Returns how a socket's own end (`peer`: the other one) is shown: 127.0.0.1:6379, or PATH:0.
std::string DescribeSocket(int fd, bool peer);

}  // namespace remora::kvgate
