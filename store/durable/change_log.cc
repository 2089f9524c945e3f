#include "store/durable/change_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/format/wire/resume_token.h"

namespace remora {
namespace {

absl::Status NotReached() {
  return absl::InvalidArgumentError("watch: its position is behind the last write of this store; begin anew");
}

}  // namespace

absl::Status NotKept(const char* why) {
  return absl::OutOfRangeError(absl::StrCat("watch: it cannot continue there: ", why,
                                            "; watch from now on, scan all, then go on with the watch"));
}

absl::StatusOr<std::uint64_t> Continue(const std::vector<Opening>& openings, const ChangePosition& position,
                                       std::uint64_t end) {
  auto opening = std::find_if(openings.begin(), openings.end(), [&](const Opening& other) {
    return other.incarnation == position.incarnation;
  });
  if (opening == openings.end()) return NotKept("the data is other, or was restored");
  // The bound keeps the sums below from overflowing, even if an opening is damaged.
  if (position.sequence == 0 || position.sequence > kMaxSequence) return NotReached();
  std::uint64_t shown = position.sequence - 1;
  if (++opening != openings.end() && shown > opening->found) {
    return NotKept("the changes that it showed were lost with the machine, or the data was restored");
  }
  // The write of an opening itself is no change. Its log file is not kept if it holds nothing else.
  for (; opening != openings.end(); ++opening) {
    if (shown == opening->found) ++shown;
  }
  if (shown > end) return NotReached();
  return shown + 1;
}

}  // namespace remora
