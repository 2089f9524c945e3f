#include "server/replication/group_receiver.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace remora {

void GroupReceiver::Begin(const void* primary, std::uint64_t last, bool syncs) {
  End();
  primary_ = primary;
  syncs_ = syncs;
  applied_ = last;
  synced_ = 0;
}

void GroupReceiver::End() {
  primary_ = nullptr;
  groups_.clear();
  begun_.clear();
  bytes_ = 0;
}

absl::Status GroupReceiver::Take(const Part& part) {
  const std::uint64_t next = applied_ + groups_.size() + 1;
  const bool continues = part.number == next && part.offset == begun_.size() && !part.bytes.empty() &&
                         part.group_size <= kMaxGroup && part.offset < part.group_size &&
                         part.bytes.size() <= part.group_size - part.offset;
  if (!continues) {
    return absl::InvalidArgumentError(absl::StrCat("replicate: a part of group ", part.number, " at ",
                                                   part.offset, ", where group ", next, " continues at ",
                                                   begun_.size(), "; connect again"));
  }
  begun_.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  if (!part.is_last()) return absl::OkStatus();
  bytes_ += begun_.size();
  groups_.push_back(std::move(begun_));
  begun_.clear();
  return absl::OkStatus();
}

absl::StatusOr<bool> GroupReceiver::Apply() {
  bool has_applied = false;
  while (!groups_.empty()) {
    const absl::Status status = apply_(applied_ + 1, groups_.front());
    if (absl::IsAborted(status)) break;
    if (!status.ok()) {
      End();
      return status;
    }
    ++applied_;
    has_applied = true;
    bytes_ -= groups_.front().size();
    groups_.pop_front();
  }
  return has_applied;
}

void GroupReceiver::NoteSynced(std::uint64_t number) {
  synced_ = std::max(synced_, std::min(number, applied_));
}

}  // namespace remora
