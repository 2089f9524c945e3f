#include "server/replication/group_cursor.h"

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"

namespace remora {

absl::StatusOr<ShippedGroups::Group> GroupCursor::Find(std::uint64_t number) {
  if (current_ != nullptr && number_ == number) return current_;
  current_ = source_.shipped.Find(number);
  if (current_ == nullptr && number < source_.shipped.first()) {
    if (from_log_ == nullptr || from_log_->number() + 1 != number) {
      REMORA_ASSIGN_OR_RETURN(from_log_, source_.read(number));
    }
    REMORA_ASSIGN_OR_RETURN(const bool is_there, from_log_->Next());
    if (!is_there) {
      return absl::OutOfRangeError(absl::StrCat(
          "follow: group ", number, " is not in the log; give the follower a copy of the primary"));
    }
    current_ = std::make_shared<const std::string>(from_log_->bytes());
  }
  number_ = number;
  return current_;
}

void GroupCursor::Reset() {
  current_.reset();
  from_log_.reset();
}

}  // namespace remora
