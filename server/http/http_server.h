// Serves HTTP to programs that watch a server, by a thread of its own.
//
// Nothing that clients do here takes more than a fixed share of memory, descriptors and threads:
//
//   H1 There is one thread. It never waits for a client: all sockets are non-blocking.
//   H2 There are at most kMaxConnections. When another one comes, the one that was idle for longest ends. So
//      connections that hold half a request need no timer, and keep nobody out.
//   H3 Of a connection's input, kMaxHead bytes are kept; of its output, one response.
//   H4 With nothing to do the thread sleeps without a time limit: no request, no CPU.
//   H5 In the long run the thread takes at most a twentieth of a CPU, whatever is asked (cpu_allowance.h).
//      In its turn, a connection has one request answered.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "rdma/unique_fd.h"
#include "server/http/http_responder.h"

namespace remora {

/// Serves the connections of one listening socket from a thread of its own.
///
/// Thread safety: none; one thread makes it and ends it.
class HttpServer {
 public:
  static constexpr std::size_t kMaxConnections = 32;
  static constexpr std::size_t kMaxHead = 8192;
  /// Descriptors beside the listener's.
  static constexpr std::size_t kDescriptors = kMaxConnections + 3;

  /// Serves at `listener` (http_listener.h), until it is destroyed, what `responder` answers; its thread is
  /// the only one that calls it. ResourceExhausted: there is no thread, or no descriptor.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(rdma::UniqueFd listener,
                                                           std::unique_ptr<HttpResponder> responder);
  /// Ends all connections. Waits for the response that is being made.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 private:
  class Loop;
  explicit HttpServer(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace remora
