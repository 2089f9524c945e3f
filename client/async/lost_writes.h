// Writes of an AsyncClient whose replies were lost with their connection.
//
// For each write that was sent and not answered, the client asks the server, in the order in which the writes
// began, before it sends any other write. When it knows all outcomes, it sends those writes again that were
// not done, in front of those that never were sent. So writes keep their order. If a write was not done, but
// a later one was, the server had rejected it: the client does not send it again, because it would come too
// late. The same holds if the later write may have been done, which is so when its caller cancelled it and
// nobody asks about it.
//
// The server's answer is what it noted when it did the write. The server accepts another connection of this
// client only when it does no more work for the previous one (server/connection/client_table.h). It remembers
// the outcomes of the last `credits` request IDs. So the client sends no request that would push out an
// unanswered one (RequestChannel::Send).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "client/async/operation.h"

namespace remora {

/// The operations with a lost_id, and what the client knows of their outcomes.
///
/// Thread safety: none.
class LostWrites {
 public:
  /// Returns whether the client knows the outcome of each.
  bool empty() const { return count_ == 0; }
  /// Returns whether the server has answered about each one, and there are some: TakeUndone comes next.
  bool are_undone() const { return undone_count_ > 0 && undone_count_ == count_; }

  void Add(AsyncOperation& operation, std::uint64_t request_id) {
    operation.lost_id = request_id;
    ++count_;
  }
  /// Removes the operation, if it is one: the client asks about it no more.
  void Drop(AsyncOperation& operation) {
    if (operation.lost_id == 0) return;
    --count_;
    if (operation.undone) --undone_count_;
    operation.lost_id = 0;
  }
  /// Notes that the write with this ID was done, or may have been done because its operation has ended
  /// without asking.
  void NoteDone(std::uint64_t request_id) { last_done_ = std::max(last_done_, request_id); }
  /// Notes that the server has not done the write. The operation then waits here. REQUIRES: it is in no list.
  void NoteUndone(AsyncOperation& operation) {
    operation.undone = true;
    ++undone_count_;
    undone_.Push(operation);
  }

  /// Takes all writes that were not done, when the outcomes of all are known. Calls again(operation) for each
  /// that may be sent again, the last one first, and `rejected(operation)` for each that would come too late.
  template <typename Again, typename Rejected>
  void TakeUndone(const Again& again, const Rejected& rejected) {
    OperationList reversed;
    while (!undone_.empty()) {
      AsyncOperation& operation = undone_.Pop();
      const bool is_late = operation.lost_id < last_done_;
      Drop(operation);
      operation.undone = false;
      if (is_late) {
        rejected(operation);
      } else {
        reversed.PushFront(operation);
      }
    }
    while (!reversed.empty()) again(reversed.Pop());
  }

 private:
  std::size_t count_ = 0;         // operations with a lost_id
  std::size_t undone_count_ = 0;  // those of them that the server has not done
  OperationList undone_;          // the latter
  std::uint64_t last_done_ = 0;   // greatest ID of NoteDone
};

}  // namespace remora
