#include "server/replication/follower_link.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora {

FollowerLink::FollowerLink(std::size_t slots, std::size_t slot_size, std::uint64_t last,
                           std::uint64_t acknowledged)
    : slot_size_(slot_size), in_slot_(slots), next_(last + 1), sent_(last), acknowledged_(acknowledged) {
  for (std::size_t i = slots - 1; i > 0; --i) free_.push_back(i - 1);
}

std::optional<FollowerLink::Part> FollowerLink::Next(std::size_t group_size) {
  if (free_.empty()) return std::nullopt;
  Part part;
  part.slot = free_.back();
  part.number = next_;
  part.offset = offset_;
  part.size = std::min(slot_size_, group_size - offset_);
  part.request.request_id = ++last_request_;
  part.request.operation = Operation::kReplicate;
  part.request.payload_offset = part.slot * slot_size_;
  part.request.value_size = static_cast<std::uint32_t>(part.size);
  part.request.condition = next_;
  part.request.ttl_ms = static_cast<std::int64_t>(group_size);
  part.request.payload_checksum = offset_;
  free_.pop_back();
  in_slot_[part.slot] = last_request_;
  offset_ += part.size;
  if (offset_ == group_size) {
    offset_ = 0;
    sent_ = next_++;
  }
  return part;
}

std::optional<Request> FollowerLink::Ask(std::uint64_t round) {
  if (!can_ask(round)) return std::nullopt;
  asked_ = round;
  Request request;
  request.request_id = ++last_request_;
  request.operation = Operation::kSupport;
  request.payload_offset = ask_slot() * slot_size_;
  request.condition = round;
  in_slot_.back() = last_request_;
  return request;
}

absl::Status FollowerLink::TakeReply(const Reply& reply, std::string_view text) {
  const auto slot = std::ranges::find(in_slot_, reply.request_id);
  if (reply.request_id == 0 || slot == in_slot_.end()) {
    return absl::InvalidArgumentError("replicate: the follower answers what nobody asked; use one release");
  }
  if (reply.status != ReplyStatus::kOk) return absl::FailedPreconditionError(AbslView(text));
  if (reply.version > sent_) {
    return absl::InvalidArgumentError(absl::StrCat("replicate: the follower acknowledges group ",
                                                   reply.version, ", and was sent groups up to ", sent_,
                                                   "; use one release"));
  }
  *slot = 0;
  if (const auto number = static_cast<std::size_t>(slot - in_slot_.begin()); number == ask_slot()) {
    answered_ = asked_;
  } else {
    free_.push_back(number);
  }
  acknowledged_ = std::max(acknowledged_, reply.version);
  return absl::OkStatus();
}

}  // namespace remora
