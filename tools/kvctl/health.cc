#include "tools/kvctl/health.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace remora {
namespace {

const char* RoleName(std::uint64_t role) {
  if (role == 1) return "follower";
  return role == 2 ? "waiting primary" : "primary";
}

}  // namespace

std::vector<Obstacle> ObstaclesOf(const MetricValues& values) {
  std::vector<Obstacle> found;
  for (const Obstacle& obstacle : kObstacles) {
    const auto entry =
        std::ranges::find(kMetrics, static_cast<std::uint32_t>(obstacle.metric), &MetricEntry::place);
    if (IsThere(obstacle, values(entry->name))) found.push_back(obstacle);
  }
  return found;
}

std::string ReplicationText(const MetricValues& values) {
  const std::uint64_t role = values("replication_role");
  if (role == 0) return "";
  std::string text = absl::StrFormat("%s, epoch %d", RoleName(role), values("replication_epoch"));
  if (role == 1) return absl::StrCat(text, ", groups applied ", values("groups_applied"));
  const std::uint64_t followers = values("followers"), away = values("followers_away");
  if (followers + away == 0) return text + ", no followers";
  const std::uint64_t shipped = values("groups_shipped");
  return absl::StrFormat("%s, followers %d of %d, groups pending %d", text, followers, followers + away,
                         shipped - std::min(values("groups_acknowledged"), shipped));
}

}  // namespace remora
