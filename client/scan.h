// A client's scan: keys and values, in order if the store is logged, in pages that the server WRITEs into the
// client's window.
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

/// A scan of a store's keys and values (Client::Scan).
///
/// On an ordered store, a scan shows exactly the records that had been written when it began, whatever is
/// written meanwhile; of each batch all or nothing. An ordered store has a durable tier, or an ordered index
/// (kvserver --ordered=memory). The scan omits expired records: the server's clock decides, at a moment of
/// the call that would show the record. On another store, ScanOptions::any_order says which records a scan
/// shows. It shows each as it was when the server made the page. The server may give up such a scan's
/// position, and the scan still continues and shows each key once.
///
/// The server keeps the positions of kMaxCursors scans of a client at once. It gives one up when the client
/// begins more scans, does not continue this one for kCursorSeconds, or reconnects. Then the scan continues
/// after the last entry that it showed, as of that later moment. With ScanOptions::one_moment the scan ends
/// instead. (A scan with a limit also continues so when entries expired before they arrived.)
///
/// A server with an ordered index keeps each record that changes until the open scans have shown it, in up to
/// 1/64 of its memory. It also gives a scan up when that is full, or when more than 256 scans are open.
///
/// A one-sided scan (ScanOptions::one_sided) READs the keys in the server's memory, and their records as a
/// MultiGet does. It shows each record as it is at some moment of the scan. It shows each key that exists
/// from its begin to its end exactly once, in order; one that is written first, or removed, meanwhile once or
/// not at all. In the steady state the server does nothing: the client learns where the keys are, and asks
/// only where keys have come or gone. The server shows stretches that cannot be READ: keys of more than about
/// 1,900 bytes, and those for which --memory had no block. Cold keys are brought to memory, as by GETs. A
/// client holds up to 31 values at once, also if it shows none of them (keys_only).
///
/// At a server that has a part of a cluster's slots, a one-sided scan also ends with the error IsMoved if
/// slots come or go meanwhile, as other scans do. It shows no record of a slot that the server does not own.
/// It asks the server once where it begins, and loads a word behind the READs of each leaf.
///
/// The client may make other calls, and use other scans, between two calls of Next. Scans share the client's
/// window: scans that take turns copy those entries in the window that they have not shown yet.
///
/// After its client is destroyed, a scan shows nothing more: Next ends with FailedPrecondition.
/// resume_token() still returns the position.
///
/// Thread safety: that of its client.
class ClientScan {
 public:
  ~ClientScan();
  ClientScan(const ClientScan&) = delete;
  ClientScan& operator=(const ClientScan&) = delete;

  /// Goes to the next entry; the first call goes to the first one. Returns false at the end, at the limit, or
  /// when status() is not OK. Cost: one round trip for about 1000 keys or half a window of bytes. The client
  /// makes it while it shows the entries before. One-sided: a READ of 2 KiB for some 50 to 600 keys, and the
  /// READs of a MultiGet for each 31 of them.
  bool Next();

  // The entry's parts, valid until Next of any scan of this client, the start of another scan, or the end of
  // the client. REQUIRES: Next returned true.
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }
  std::uint64_t version() const { return version_; }
  /// Returns when the entry expires, in ms since 1970 by the server's clock. 0: never.
  std::uint64_t expiry_ms() const { return expiry_ms_; }

  /// Returns the outcome of the scan so far:
  ///   OK: Next may be called, or the scan has shown all entries.
  ///   Aborted: with ScanOptions::one_moment, the server has given the scan up, or the connection broke.
  ///   Unavailable: the connection broke and the client got no other in time (ClientOptions), or the server
  ///     cannot read its disk.
  ///   DeadlineExceeded: the server did not answer in time.
  ///   Internal: the server sent a malformed page, or has a malformed ordered index.
  ///   FailedPrecondition: the client was destroyed; or slots came or went (IsMoved); or, one-sided, another
  ///     server took over that has no ordered index.
  ///   Unavailable, one-sided: the server is loading; and any status of a Get.
  const absl::Status& status() const;

  /// Returns a resume token for ScanOptions::resume_token, with which any client may at any time continue
  /// after the last entry that was shown. It consists of letters, digits, "-" and "_". It is slightly longer
  /// than 4/3 of the sizes of that entry's key and of the range's other end.
  std::string resume_token() const;

  class Impl;  // internal to the client library

 private:
  friend class Client;
  explicit ClientScan(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
  std::string key_;  // key of the last entry; empty before the first one
  std::string_view value_;
  std::uint64_t version_ = 0;
  std::uint64_t expiry_ms_ = 0;
};

}  // namespace remora
