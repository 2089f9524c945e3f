// The primary's state of one connected follower: a state machine without I/O.
//
// These invariants hold:
//   R4   The link sends groups in the order of their numbers, and the parts of a group in their order,
//        without a gap.
//   R5   A message uses a slot of the follower's staging buffer that no unanswered message uses. So the
//        follower never sees a part that a later one has overwritten.
//   R6   acknowledged() counts the replies of the follower since it connected. It counts a group only if the
//        link has sent the whole group, or the follower had it before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Chooses the next message for a follower, and takes its replies.
///
/// Thread safety: none; the thread of the link.
class FollowerLink {
 public:
  /// The follower has groups up to `last`, and acknowledges those up to `acknowledged`. REQUIRES: there are
  /// two slots at least. The last one is for rounds.
  FollowerLink(std::size_t slots, std::size_t slot_size, std::uint64_t last, std::uint64_t acknowledged);

  /// A part of a group, to be sent in a message.
  struct Part {
    std::size_t slot = 0;
    std::uint64_t number = 0;  // of the group
    std::size_t offset = 0;    // in the group
    std::size_t size = 0;
    Request request{};  // without a payload
  };

  /// Returns the number of the group of which the next part is.
  std::uint64_t next() const { return next_; }
  /// Returns the next part of group next(), which has `group_size` bytes (not 0). Nothing: no slot is free.
  std::optional<Part> Next(std::size_t group_size);
  /// Returns the request that asks the follower in this round of the lease line. Nothing: an earlier one is
  /// unanswered, or the follower was asked.
  std::optional<Request> Ask(std::uint64_t round);
  /// Returns the slot of the requests of Ask.
  std::size_t ask_slot() const { return in_slot_.size() - 1; }
  /// Returns the number of the last round that the follower has answered; 0: none.
  std::uint64_t answered() const { return answered_; }

  /// Takes the reply to a message.
  ///
  /// - InvalidArgument: the follower breaks the protocol.
  /// - FailedPrecondition: the follower takes no more groups; the message is `text`.
  absl::Status TakeReply(const Reply& reply, std::string_view text);

  std::uint64_t acknowledged() const { return acknowledged_; }
  /// Returns whether a slot for parts is free.
  bool can_send() const { return !free_.empty(); }
  /// Returns whether Ask would return a request.
  bool can_ask(std::uint64_t round) const { return in_slot_.back() == 0 && round > asked_; }
  /// Returns whether a message is unanswered.
  bool awaits_reply() const { return free_.size() + 1 < in_slot_.size() || in_slot_.back() != 0; }

 private:
  const std::size_t slot_size_;
  std::vector<std::uint64_t> in_slot_;  // request IDs of the unanswered messages; 0: the slot is free
  std::vector<std::size_t> free_;       // slots for parts
  std::uint64_t asked_ = 0;             // the last round in which the follower was asked
  std::uint64_t answered_ = 0;
  std::uint64_t last_request_ = 0;
  std::uint64_t next_;
  std::size_t offset_ = 0;  // in group next_
  std::uint64_t sent_;      // the follower was sent all groups up to this one, or had them
  std::uint64_t acknowledged_;
};

}  // namespace remora
