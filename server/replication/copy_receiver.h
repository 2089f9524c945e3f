// The follower's side of a copy: it takes the files and groups of a primary whose groups it cannot follow.
//
//   R15  A follower takes a copy only while its cluster says that nobody relies on its data. It takes one
//        only of a primary of its own epoch at least, and of etcd's, whose history has one of its own reigns.
//        It acknowledges nothing meanwhile. Its own data stay until the whole copy is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "server/replication/history.h"
#include "store/durable/incoming_copy.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/replication_messages.h"

namespace remora {

/// Takes the messages of one copy.
///
/// Thread safety: none; the server's one thread. It waits for the disk: a follower has no clients.
class CopyReceiver {
 public:
  explicit CopyReceiver(std::string data_dir) : data_dir_(std::move(data_dir)) {}

  /// Takes a copy from this primary, a session, which has this history. It goes on from the tables of an
  /// earlier one (V7 of store/durable/incoming_copy.h).
  void Begin(const void* primary, History history);
  bool IsFrom(const void* primary) const { return primary_ == primary && primary != nullptr; }
  /// Takes a message behind the first one, and returns the result of its reply. `bytes`: its value, which
  /// nobody changes meanwhile.
  ///
  /// - FailedPrecondition: nobody began it. Errors are those of IncomingCopy; then the copy is gone.
  absl::StatusOr<std::int64_t> Take(const Request& request, std::span<const std::byte> bytes);
  /// Takes no more from its primary. The part of a copy that has come stays, for the next one.
  void Stop();
  /// Removes a copy that is not whole.
  void Drop();
  /// Returns the epoch of the primary that sends it, or 0.
  std::uint64_t epoch() const { return primary_ == nullptr ? 0 : history_.epoch(); }
  /// Returns whether a whole copy is there.
  bool is_whole() const { return is_whole_; }
  /// Returns the bytes that came of the copy, groups included.
  std::uint64_t bytes() const { return bytes_; }

 private:
  absl::StatusOr<std::int64_t> TakeStep(const Request& request, std::span<const std::byte> bytes);

  const std::string data_dir_;
  const void* primary_ = nullptr;
  History history_;
  std::unique_ptr<IncomingCopy> copy_;  // null: no file has come
  std::uint64_t bytes_ = 0;
  std::uint64_t group_ = 0;  // whose parts come
  std::uint64_t group_at_ = 0;
  bool is_whole_ = false;
  bool has_part_ = true;  // of a copy, in the directory; or an earlier process may have left one
};

}  // namespace remora
