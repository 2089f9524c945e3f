// kvctl cluster members: a shard in its configuration in etcd, and in the answers of its members.
//
//   report.h       the two side by side, as text and as JSON, and the verdict
//   shard.h        the configuration, which commands read and change, and the members, which they ask
//   changes.cc     cluster remove, add and force
//   rebuild.cc     cluster rebuild; latest.h has its choice of a member
//   ../members.cc  cluster members and switch
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/cluster/shard_configuration.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

/// The part of a member in the configuration.
enum class MemberPart : std::uint8_t {
  kPrimary,
  kInSync,
  kComplete,  // it left at the minimum, has all writes, and may take over
  kOut,       // it has to catch up before it is in sync again
};

/// The state of a member, as it tells itself.
enum class MemberState : std::uint8_t {
  kServes,
  kOpens,  // a primary that does not serve yet
  kFollows,
  kLoads,
  kIsAlone,  // a server without a primary and without followers
  kNoAnswer,
};

struct MemberAnswer {
  MemberState state = MemberState::kNoAnswer;
  std::uint64_t epoch = 0;         // in which it leads or follows
  std::uint64_t last_version = 0;  // of the writes that it has
  bool rejects_writes = false;     // by its disk, or for lack of memory
  Outcome failure{};               // why it does not answer
};

/// Returns the answer of a server with these metrics.
MemberAnswer AnswerIn(const std::vector<std::pair<std::string, std::uint64_t>>& metrics);

struct MemberLine {
  std::string id;
  std::string address;
  MemberPart part = MemberPart::kOut;
  MemberAnswer answer{};
  /// At least so many writes of the primary it lacks. Nothing: it or the primary does not tell.
  std::optional<std::uint64_t> lacks{};
};

/// A shard, with a line for each of its members.
class MembersReport {
 public:
  /// `answers`: of the replicas of the configuration, in their order. The primary was asked first.
  MembersReport(std::string shard, ShardConfiguration configuration, std::vector<MemberAnswer> answers);

  const std::vector<MemberLine>& members() const { return members_; }
  /// A line for the shard, a header, and a line for each member.
  std::string ToText() const;
  /// One object, on a line.
  std::string ToJson() const;
  /// Success: the primary serves and takes writes, and all members are in sync and follow it. kExitProblem:
  /// the primary serves. Others: no primary serves.
  Outcome Verdict() const;

 private:
  const MemberLine* primary() const;

  const std::string shard_;
  const ShardConfiguration configuration_;
  std::vector<MemberLine> members_;
};

}  // namespace remora::kvctl
