// A client's watch: the writes to a store, in their order, from a moment on.
//
//   auto watch = client->Watch({.prefix = "user/"});
//   const std::string from = (*watch)->resume_token();         // kept, to continue from here another time
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

/// A watch of a store's writes (Client::Watch).
///
/// A watch shows each write in the server's log once it is visible, in the order in which the writes became
/// visible. The writes of a batch come one after the other. It shows the values that were written, even if
/// they have expired or were overwritten since. An expiry shows up as a deletion within two seconds, whether
/// or not other writes come (store/watch.h has the exceptions, for very large stores).
///
/// The commit log of a server has writes of every level, so a watch shows all of them. Without a commit log
/// (kvserver --commit_log=off), a watch shows a write of Durability::kMemory only if the write shares a group
/// commit with a logged one. So do not rely on either case. RocksDB's log lacks the other ones. A restart may
/// keep their effects, but cannot distinguish that gap from a lost part of the log. So after it the server no
/// longer keeps positions before the gap (OutOfRange).
///
/// A server that is only in memory (kvserver --durability=memory) has its last changes in a change log
/// (--change_log); it cannot be watched without one. A watch that falls behind by more than that, or meets a
/// write which is larger, ends with OutOfRange, and so does each at a restart of the server. A record that
/// such a server evicts is lost, and shows up as a deletion.
///
/// A watch shows each change once. A program that continues from an older token sees some changes again. So a
/// program that stores the token after it has handled a change handles each change at least once.
///
/// To keep a copy up to date: begin a watch, scan all keys, then continue the watch. Changes during the scan
/// come twice. So apply a change of a key only if its version is greater, or if it is a deletion. The copy is
/// right once the watch has reached the position where the store was at the end of the scan.
///
/// The server sends nothing to a watch that falls behind: the client asks for each page. A client that has
/// seen all changes READs a word of the server's memory every 1 to 16 ms, which costs the server nothing. The
/// server keeps the watch's position among the cursors of its client's scans (client/scan.h). If it gave that
/// up, it finds the position again. A watch continues over a new connection, and over a restart of the
/// server, as long as the server keeps the changes that come next.
///
/// After its client is destroyed, Next ends with FailedPrecondition. resume_token() still returns the
/// position.
///
/// Thread safety: that of its client.
class ClientWatch {
 public:
  ~ClientWatch();
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

  /// Goes to the next change, and waits for it up to `wait`. Returns false if no change came in this time.
  /// Outcomes:
  ///   OutOfRange: the watch fell too far behind, so the server no longer keeps the changes that come next;
  ///     or they were lost with the server's machine; or the server has other data now. The first call that
  ///     reaches a server that was started anew says so, also if that server has no changes yet. Begin anew,
  ///     as described above.
  ///   Unavailable: the connection broke and the client could not reconnect, or the server cannot read its
  ///     disk.
  ///   DeadlineExceeded: the server did not answer within ClientOptions::timeout.
  ///   ResourceExhausted: the server is short of something, for example a thread.
  ///   FailedPrecondition, PermissionDenied: as for Connect, when the call had to connect again.
  ///   InvalidArgument: the server rejected the watch's prefix or token.
  ///   Internal: the server sent a malformed page.
  /// OutOfRange, InvalidArgument and Internal are final. After any other error the caller may call Next
  /// again, and the watch continues after the change that it showed last.
  absl::StatusOr<bool> Next(std::chrono::milliseconds wait);

  // The change's parts, valid until the next call of Next. REQUIRES: Next returned true.
  ChangeKind kind() const { return change_.kind; }
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }          // empty for a deletion
  std::uint64_t version() const { return change_.version; }  // 0 for a deletion
  /// Returns when the value expires, in ms since 1970 by the server's clock. 0: never.
  std::uint64_t expiry_ms() const { return change_.expiry_ms; }
  /// Returns the change's number, which increases from one change to the next.
  std::uint64_t sequence() const { return change_.sequence; }

  /// Returns a resume token for WatchOptions::resume_token, with which any client of this server may at any
  /// time continue after the change that was shown last. It consists of 34 letters, digits, "-" and "_".
  std::string resume_token() const;

  class Impl;  // internal to the client library

 private:
  friend class Client;
  explicit ClientWatch(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
  ChangeEntry change_{};
  std::string_view key_;
  std::string_view value_;
};

}  // namespace remora
