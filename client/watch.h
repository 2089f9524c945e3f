// A client's watch: what is written to a logged store, in its order, from a moment on.
//
//   auto watch = client->Watch({.prefix = "user/"});
//   const std::string from = (*watch)->token();         // kept, to go on from here another time
//   for (;;) {
//     absl::StatusOr<bool> came = (*watch)->Next(std::chrono::seconds(1));
//     if (!came.ok()) ...
//     if (*came) Show((*watch)->kind(), (*watch)->key(), (*watch)->value());
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/format/types/change.h"

namespace remora {

/// Shows each write that is in the server's log, once it is visible, in the order in which they became so; of
/// a batch, one after the other. Values are as they were written, even if they have expired or were written
/// over since. What expires shows up as a deletion, within two seconds of that, whether or not anything is
/// written (store/watch.h has the exceptions, of very large stores).
///
/// A write of Durability::kMemory is shown only where it shares a group with one that is logged: do not count
/// on either. The log does not have the others. A restart may keep what they wrote, but cannot tell that gap
/// from a log that was lost: a place before it is not kept any more then (OutOfRange).
///
/// A change is shown once, but again by who goes on from an older token: so a program that keeps the token
/// after it has done what a change asks for sees each change at least once.
///
/// To have a copy that follows: begin a watch, then scan all, then go on with the watch. What is written in
/// between comes twice, so take of a key only what has a greater version, and deletions; the copy is right
/// when it has come to where the store was at the end of the scan.
///
/// Nothing is sent for who falls behind: pages are asked for. Who has seen all READs a word of the server's
/// memory now and then, every 1 to 16 ms, which costs the server nothing. The server keeps a place for it
/// among the cursors of its client's scans (client/scan.h), and finds it anew when it gave that up; a watch
/// goes on over a new connection, and over a restart of the server, as long as what comes next is kept.
///
/// When its client is gone, Next ends with FailedPrecondition; token() still tells where to go on.
///
/// Thread Safety: none; that of its client.
class ClientWatch {
 public:
  ~ClientWatch();
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

  /// Goes to the next change. False: none came in this time. OutOfRange: it fell too far behind, and what
  /// comes next is not kept any more, or was lost with the server's machine; then begin anew, as above.
  /// Unavailable: the connection broke and could not be made anew, or the server cannot read its disk.
  /// DeadlineExceeded: no answer within ClientOptions::timeout. ResourceExhausted: the server is short of
  /// something, a thread for example. FailedPrecondition, PermissionDenied: as Connect, when the call had to
  /// connect again. Internal: what the server sent is no page. OutOfRange, InvalidArgument and Internal are
  /// for good. After all others it may be called again, and goes on behind the change that was shown last.
  absl::StatusOr<bool> Next(std::chrono::milliseconds wait);

  // The change. Until Next. REQUIRES: Next was true.
  ChangeKind kind() const { return change_.kind; }
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }          // of a deletion: empty
  std::uint64_t version() const { return change_.version; }  // of a deletion: 0
  /// The moment of the server's clock, in ms since 1970, at which it expires. 0: never.
  std::uint64_t expiry_ms() const { return change_.expiry_ms; }
  /// Goes up from one change to the next.
  std::uint64_t sequence() const { return change_.sequence; }

  /// For WatchOptions::token of any client of this server, at any time: goes on behind the change that was
  /// shown last. Letters, digits, "-" and "_", 34 of them.
  std::string token() const;

  class Impl;  // for the client library alone

 private:
  friend class Client;
  explicit ClientWatch(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
  ChangeEntry change_{};
  std::string_view key_;
  std::string_view value_;
};

}  // namespace remora
