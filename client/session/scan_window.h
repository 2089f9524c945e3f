// Memory of a client into which the server WRITEs pages of scans and watches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/rpc/request_channel.h"
#include "rdma/transport.h"
#include "store/format/wire/remote_region.h"

namespace remora {

/// A window, the scan whose pages are in it, and the reply to the request for a page. That request is in
/// flight beside the requests of calls.
///
/// Thread safety: none. Ownership: the registration ends before the connection (Deregister). The owner
/// outlives its turn.
class ScanWindow {
 public:
  /// A scan whose pages are in the window.
  class Owner {
   public:
    /// Copies the entries that it has not shown yet out of the window, because another scan needs the window
    /// or the connection is another one. REQUIRES: no page is in flight.
    virtual void GiveUpWindow() = 0;

   protected:
    ~Owner() = default;
  };

  /// The window's memory, and the server's name for it.
  struct View {
    std::span<std::byte> bytes;
    RemoteRegion remote;
  };

  /// Makes a window of `size` bytes (ClientOptions::scan_window_bytes).
  explicit ScanWindow(std::size_t size) : size_(size) {}

  /// Offers the memory to a connection. Call it for each one, before it connects. Over the local transport
  /// the server maps the memory when it accepts the client; neither side touches a page of it before the
  /// first scan. InvalidArgument: the size is out of bounds.
  absl::Status Offer(rdma::ClientConnection& connection);
  /// Returns the memory, and registers it the first time, which pins it. FailedPrecondition: the size is 0.
  absl::StatusOr<View> Register(rdma::ClientConnection& connection);
  void Deregister() { registration_.reset(); }

  /// Returns the scan whose pages are in the window; null: there is none.
  Owner* owner() const { return owner_; }
  void set_owner(Owner* owner) { owner_ = owner; }

  /// Returns a cursor that no scan needs any more, once; 0: there is none.
  std::uint64_t TakeAbandonedCursor() { return std::exchange(abandoned_cursor_, 0); }
  void AbandonCursor(std::uint64_t cursor) { abandoned_cursor_ = cursor; }

  /// Returns the reply to the request for a page.
  StoredReply& reply() { return reply_; }

 private:
  const std::size_t size_;
  StoredReply reply_;
  Owner* owner_ = nullptr;
  std::uint64_t abandoned_cursor_ = 0;
  std::unique_ptr<rdma::SharedMemory> memory_;        // null: none
  std::unique_ptr<rdma::Registration> registration_;  // null: not yet
};

}  // namespace remora
