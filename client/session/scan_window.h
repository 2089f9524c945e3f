// Memory of a client that the server WRITEs pages of scans and watches to.
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

/// A window, the scan whose pages are in it, and the reply to the request for a page that is in flight beside
/// those of the calls.
///
/// Thread safety: none. Ownership: the registration ends before the connection (Deregister); the owner
/// outlives its turn.
class ScanWindow {
 public:
  /// A scan whose pages are in the window.
  class Owner {
   public:
    /// Another one needs the window, or it is another connection's: copies what is still to be shown of it.
    /// REQUIRES: no page is in flight.
    virtual void GiveUpWindow() = 0;

   protected:
    ~Owner() = default;
  };

  /// Memory and its name for the server.
  struct View {
    std::span<std::byte> bytes;
    RemoteRegion remote;
  };

  /// `size`: ClientOptions::scan_window_bytes.
  explicit ScanWindow(std::size_t size) : size_(size) {}

  /// For each connection anew, before it connects. Over the local transport the server maps the memory when
  /// it accepts us; nobody touches a page of it before the first scan. InvalidArgument: the size.
  absl::Status Offer(rdma::ClientConnection& connection);
  /// Pins the memory, the first time. FailedPrecondition: the size is 0.
  absl::StatusOr<View> Register(rdma::ClientConnection& connection);
  void Deregister() { registration_.reset(); }

  /// The window's owner; null: nobody's pages are in it.
  Owner* owner() const { return owner_; }
  void set_owner(Owner* owner) { owner_ = owner; }

  /// Returns a cursor that nobody needs any more, once; 0: none.
  std::uint64_t TakeAbandonedCursor() { return std::exchange(abandoned_cursor_, 0); }
  void AbandonCursor(std::uint64_t cursor) { abandoned_cursor_ = cursor; }

  /// The reply to the request for a page.
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
