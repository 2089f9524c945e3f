#include "tools/kvctl/members/latest.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace remora::kvctl {

absl::StatusOr<const MemberLine*> ChooseLatest(const std::vector<MemberLine>& members,
                                               const std::string& id) {
  const auto position = [](const MemberLine& one) {
    return std::pair(one.answer.epoch, one.answer.last_version);
  };
  const auto latest = std::ranges::max_element(members, {}, position);
  if (latest->answer.epoch == 0) {
    return absl::FailedPreconditionError(
        "cluster rebuild: no member has data of this shard, so there is nothing to rebuild; start one with "
        "--initial_member and an empty --data_dir, and it begins the shard");
  }
  if (!id.empty()) {
    const auto named = std::ranges::find(members, id, &MemberLine::id);
    if (named != members.end()) return &*named;
    return absl::InvalidArgumentError(
        absl::StrCat("cluster rebuild: --member=", id, " is none of --initial_member; name one of these"));
  }
  for (const MemberLine& one : members) {
    if (one.answer.last_version <= latest->answer.last_version) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "cluster rebuild: the members disagree: ", latest->id, " has the latest epoch, ",
        latest->answer.epoch, ", with writes up to version ", latest->answer.last_version, ", and ", one.id,
        " has writes up to ", one.answer.last_version, " of epoch ", one.answer.epoch,
        "; see their logs, and choose with --member: what only the other one "
        "has is lost"));
  }
  return &*latest;
}

}  // namespace remora::kvctl
