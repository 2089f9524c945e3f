#include "client/cluster/cluster_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/cluster_shard.h"
#include "client/scan/watch_impl.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Separates the shards' tokens; none of them has it.
constexpr char kTokenSeparator = '.';
// Changes of one shard in a row, if others may have some.
constexpr std::size_t kMaxInARow = 64;

}  // namespace

ClusterWatch::~ClusterWatch() = default;

absl::Status ClusterWatch::Begin(ClusterClient& client, const WatchOptions& options) {
  std::vector<std::string> tokens(client.size());
  if (!options.resume_token.empty()) {
    tokens = absl::StrSplit(AbslView(options.resume_token), kTokenSeparator);
    if (tokens.size() != client.size()) {
      return absl::InvalidArgumentError(absl::StrCat("watch: the resume token is of ", tokens.size(),
                                                     " shards, and this topology has ", client.size(),
                                                     "; pass the token of a watch of this topology"));
    }
    // An empty part would begin at the present, and omit changes.
    if (std::ranges::any_of(tokens, &std::string::empty)) {
      return absl::InvalidArgumentError(
          "watch: the resume token is malformed; pass it as a watch returned it");
    }
  }
  for (std::size_t i = 0; i < client.size(); ++i) {
    REMORA_ASSIGN_OR_RETURN(Client* const server, client.shard(i));
    auto watch = server->Watch({.prefix = options.prefix, .resume_token = tokens[i]});
    if (!watch.ok()) return NameShard(topology_.shards()[i], watch.status());
    watches_.push_back(*std::move(watch));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ClusterWatch::Look(std::size_t shard) {
  for (;;) {
    const absl::StatusOr<bool> came = watches_[shard]->Next(std::chrono::milliseconds(0));
    if (!came.ok()) return NameShard(topology_.shards()[shard], came.status());
    if (!*came || topology_.ShardOf(watches_[shard]->key()) == shard) return *came;
  }
}

absl::StatusOr<bool> ClusterWatch::Next(std::chrono::milliseconds wait) {
  REMORA_RETURN_IF_ERROR(failed_);
  TimePoint until{};
  for (Duration pause = kFirstWatchPause;; pause = std::min<Duration>(2 * pause, kLongestWatchPause)) {
    for (std::size_t looks = 0; looks < watches_.size(); ++looks) {
      const std::size_t shard = next_;
      const absl::StatusOr<bool> came = Look(shard);
      const bool is_next = came.ok() && *came && ++in_a_row_ < kMaxInARow;
      if (!is_next) {
        next_ = (shard + 1) % watches_.size();
        in_a_row_ = 0;
      }
      if (!came.ok()) {
        if (IsFinalForWatch(came.status())) failed_ = came.status();
        return came;
      }
      if (*came) {
        current_ = shard;
        return true;
      }
    }
    // Only now is it known that the client still lives, and its clock with it.
    const TimePoint now = clock_.Now();
    if (until == TimePoint{}) until = now + wait;
    if (now >= until) return false;
    if (clock_.IsInterrupted()) return absl::CancelledError(kInterrupted);
    clock_.Sleep(std::min<Duration>(pause, until - now));
  }
}

std::string ClusterWatch::resume_token() const {
  return absl::StrJoin(watches_, absl::string_view(&kTokenSeparator, 1),
                       [](std::string* text, const std::unique_ptr<ClientWatch>& watch) {
                         text->append(watch->resume_token());
                       });
}

}  // namespace remora
