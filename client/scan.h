// A client's scan: keys and values, of a logged store in order, in pages that the server WRITEs.
//
//   auto scan = client->Scan({.prefix = "user/", .limit = 100});
//   while ((*scan)->Next()) Show((*scan)->key(), (*scan)->value());
//   if (!(*scan)->status().ok()) ...
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remora {

/// Shows exactly what had been written when it began, whatever is written meanwhile: of each batch all or
/// nothing. Records whose time is over are not shown, by the server's clock at a moment of the call that
/// would show them.
///
/// That is of a store with a durable tier. Of one that is only in memory, ScanOptions::any_order says what it
/// shows, each entry as it was when the server made its page. It may be given up and go on all the same: each
/// key is shown once.
///
/// The server keeps the place of each scan, of kMaxCursors of a client at once. It gives one up when the
/// client begins more, does not go on for kCursorSeconds, or connects anew; then the scan goes on behind the
/// last entry that it showed, as of that later moment; or ends, with ScanOptions::one_moment. (A limit also
/// goes on so, when entries expired on their way.)
///
/// Other calls of the client, and other scans, may come between two Next. Scans share the client's window:
/// those that take turns copy what of it they have not shown yet.
///
/// When its client is gone, it shows nothing more: Next ends with FailedPrecondition. token() still tells
/// where to go on.
///
/// Thread Safety: none; that of its client.
class ClientScan {
 public:
  ~ClientScan();
  ClientScan(const ClientScan&) = delete;
  ClientScan& operator=(const ClientScan&) = delete;

  /// Goes to the next entry; at first, to the first one. False: there is none, or the limit is reached, or
  /// not status().ok(). Cost: of about every 1000 keys or half window of bytes a round trip, which is made
  /// while the entries before are shown.
  bool Next();

  // The entry. Until Next of any scan of this client, a new one, or the end of the client. REQUIRES: Next was
  // true.
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }
  std::uint64_t version() const { return version_; }
  /// The moment of the server's clock, in ms since 1970, at which it expires. 0: never.
  std::uint64_t expiry_ms() const { return expiry_ms_; }

  /// Aborted: ScanOptions::one_moment, and the server has given the scan up, or the connection broke.
  /// Unavailable: it broke, and there was no other in time (ClientOptions), or the server cannot read its
  /// disk. DeadlineExceeded. Internal: what the server sent is no page. FailedPrecondition: the client is
  /// gone.
  const absl::Status& status() const;

  /// For ScanOptions::token of any client's scans of this store, at any time: goes on behind the last entry
  /// that was shown. Letters, digits, "-" and "_"; 4/3 of the sizes of that key and the range's other end,
  /// and some.
  std::string token() const;

  class Impl;  // for the client library alone

 private:
  friend class Client;
  explicit ClientScan(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
  std::string key_;  // of the last entry; empty: there was none
  std::string_view value_;
  std::uint64_t version_ = 0;
  std::uint64_t expiry_ms_ = 0;
};

}  // namespace remora
