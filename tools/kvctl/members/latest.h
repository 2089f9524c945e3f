// The choice among members of a shard whose configuration is lost: which one has the latest writes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/kvctl/members/report.h"

namespace remora::kvctl {

/// Returns the one of the members that is to lead: that of this ID or, if it is empty, the one with the
/// latest writes. The latest epoch counts first: an earlier primary may have writes that were never
/// acknowledged. REQUIRES: there is a member.
///
/// - FailedPrecondition: no member has data; or another one has later writes of an earlier epoch.
/// - InvalidArgument: there is no member of this ID.
absl::StatusOr<const MemberLine*> ChooseLatest(const std::vector<MemberLine>& members, const std::string& id);

}  // namespace remora::kvctl
