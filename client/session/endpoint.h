// The client's end of a connection.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/region/region_reader.h"
#include "client/region/session_buffers.h"
#include "client/registered_buffer.h"
#include "client/rpc/request_channel.h"
#include "client/session/call_guard.h"
#include "client/session/scan_window.h"
#include "rdma/transport.h"

namespace remora {

/// The connection of a session, the reason why it is broken, and the caller's memory that is registered with
/// it. It binds the parts of the session that use the connection. There is at most one at a time.
///
/// S1 Memory that the connection may read or write is registered with it. The registrations end before the
///    connection does. So when End returns, no device accesses memory of the client or the caller.
/// S2 While status() is not OK, the session posts no READ and no request.
///
/// Thread safety: none. Ownership: the objects passed to the constructor outlive it.
class Endpoint {
 public:
  Endpoint(InUse& in_use, SessionBuffers& buffers, ScanWindow& scan_window, RegionReader& region,
           RequestChannel& channel)
      : in_use_(in_use), buffers_(buffers), scan_window_(scan_window), region_(region), channel_(channel) {}
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // --- The connection

  /// Uses this connection from now on, in place of an earlier one that has ended. It registers the session's
  /// memory and offers it to the connection, which is not connected yet. ResourceExhausted: the process may
  /// not lock enough memory. InvalidArgument: as ScanWindow::Offer.
  absl::Status Bind(std::unique_ptr<rdma::ClientConnection> connection);
  /// Registers the caller's buffers, once it is connected.
  absl::Status RegisterBuffers();
  /// Ends the connection, which counts as broken then. Afterwards no device accesses the client's memory.
  void End();
  /// REQUIRES: Bind was called, and End was not called since.
  rdma::ClientConnection& connection() const { return *connection_; }

  // --- Its state

  /// Returns the reason why the connection is broken and every call fails. OK: it is not.
  const absl::Status& status() const { return broken_; }
  /// Returns whether the connection is broken, even if no call has noticed it. Session::Reconnect replaces
  /// it.
  bool is_broken() const { return !broken_.ok() || !connection_->status().ok(); }
  /// Makes every later call fail with `cause`, and returns it. The reason: completions of requests in flight
  /// may still come, and a later call would mistake them for its own.
  absl::Status Break(absl::Status cause);
  /// Makes every later call fail with this, in place of an earlier reason.
  void Fail(absl::Status reason) { broken_ = std::move(reason); }
  /// Returns the reason why the connection was broken, and forgets it: another connection follows.
  absl::Status TakeReason() { return std::exchange(broken_, absl::OkStatus()); }

  // --- Memory of the caller

  /// Registers a buffer with this connection, if it is not broken, and with all later ones, until Remove.
  absl::Status Add(RegisteredBuffer* buffer);
  void Remove(RegisteredBuffer* buffer);
  /// Checks that this client registered the memory. InvalidArgument: another client did.
  absl::Status CheckOwn(const RegisteredBytes& memory) const;
  /// Returns the memory's scatter-gather element. REQUIRES: CheckOwn is OK.
  static rdma::Sge SgeOf(const RegisteredBytes& memory);

 private:
  void Deregister();

  InUse& in_use_;
  SessionBuffers& buffers_;
  ScanWindow& scan_window_;
  RegionReader& region_;
  RequestChannel& channel_;
  absl::Status broken_;
  std::vector<RegisteredBuffer*> user_buffers_;  // their registrations end before the connection
  std::unique_ptr<rdma::ClientConnection> connection_;
};

}  // namespace remora
