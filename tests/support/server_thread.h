// A real server in a thread of its own, for tests and benchmarks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "rdma/address.h"
#include "server/server.h"
#include "store/base/clock.h"

namespace remora {

class ServerThread {
 public:
  /// Returns once the server serves at these addresses, or with the reason why it cannot.
  static absl::StatusOr<std::unique_ptr<ServerThread>> Start(
      const ServerOptions& options, std::span<const rdma::Address> addresses,
      rdma::MemoryWindows windows = rdma::MemoryWindows::kAuto);
  static absl::StatusOr<std::unique_ptr<ServerThread>> Start(const ServerOptions& options,
                                                             const rdma::Address& address) {
    return Start(options, std::span(&address, 1));
  }
  /// Stops the server cleanly.
  ~ServerThread();

  /// Its Store and its Stop may be used from any thread.
  Server& server() { return *server_; }
  /// The first of them.
  const std::string& address() const { return address_; }

 private:
  ServerThread() = default;

  SteadyClock clock_;
  Server* server_ = nullptr;  // lives in the thread
  std::string address_;
  std::thread thread_;
};

/// An address that no other test of this process, or of others at the same time, uses: over verbs on the host
/// that REMORA_VERBS_HOST names, or a socket below `directory`.
rdma::Address FreshAddress(rdma::TransportKind kind, const std::string& directory);

/// For test names.
std::string NameOf(rdma::TransportKind kind);

/// The host of an RDMA device for tests, or why there is none.
absl::StatusOr<std::string> VerbsHost();

/// A directory of its own below the system's temporary one, removed with everything in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace remora
