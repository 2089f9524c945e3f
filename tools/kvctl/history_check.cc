#include "tools/kvctl/history_check.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cluster/cluster_shard.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/wire/resume_token.h"

namespace remora::kvctl {
namespace {

// Starts of the server that a comparison outlasts.
constexpr int kMaxStarts = 8;
constexpr std::size_t kIncarnationDigits = 16;
// Stands between the marks of shards, and in none of them.
constexpr char kMarkSeparator = ',';

/// Returns the position behind all that was acknowledged. Empty: the store is only in memory.
absl::StatusOr<std::string> PositionNow(Client& client) {
  const absl::StatusOr<std::unique_ptr<ClientWatch>> watch = client.Watch();
  if (absl::IsFailedPrecondition(watch.status())) return std::string();
  if (!watch.ok()) return watch.status();
  return (*watch)->resume_token();
}

}  // namespace

absl::Status ServerHistory::Begin(std::string_view mark) {
  if (!mark.empty()) {
    const std::string_view digits = mark.substr(0, kIncarnationDigits);
    position_ = mark.substr(digits.size());
    const char* const end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, incarnation_, 16);
    const bool has_form =
        error == std::errc() && rest == end && digits.size() == kIncarnationDigits && incarnation_ != 0;
    if (!has_form || (!position_.empty() && !ReadChangeToken(position_))) {
      return absl::InvalidArgumentError(
          "--resume: this is no resume token of a copy, or it was changed or cut");
    }
    return Compare().status();
  }
  for (int i = 0; i < kMaxStarts; ++i) {
    incarnation_ = client_.incarnation();
    REMORA_ASSIGN_OR_RETURN(position_, PositionNow(client_));
    if (client_.incarnation() == incarnation_) return absl::OkStatus();
  }
  return absl::UnavailableError("history: the server restarts again and again; see its log");
}

absl::StatusOr<ServerHistory::Step> ServerHistory::Compare() {
  if (client_.incarnation() == 0) REMORA_RETURN_IF_ERROR(client_.Ping());
  if (client_.incarnation() == incarnation_) return Step::kSame;
  for (int i = 0; i < kMaxStarts; ++i) {
    const std::uint64_t incarnation = client_.incarnation();
    REMORA_RETURN_IF_ERROR(CheckPosition());
    if (client_.incarnation() != incarnation) continue;
    incarnation_ = incarnation;
    return Step::kAnew;
  }
  return absl::UnavailableError("history: the server restarts again and again; see its log");
}

absl::Status ServerHistory::CheckPosition() {
  if (position_.empty()) return Lost("it keeps its records only in memory");
  const absl::Status known = client_.Watch({.resume_token = position_}).status();
  const bool is_unknown =
      absl::IsOutOfRange(known) || absl::IsInvalidArgument(known) || absl::IsFailedPrecondition(known);
  return is_unknown ? Lost({known.message().data(), known.message().size()}) : known;
}

absl::Status ServerHistory::Lost(std::string_view why) {
  is_lost_ = true;
  return absl::FailedPreconditionError(absl::StrCat(
      "the server was started anew since, and may have lost records of this copy: ", AbslView(why)));
}

absl::StatusOr<ServerHistory::Step> ServerHistory::Advance() {
  REMORA_ASSIGN_OR_RETURN(const Step step, Compare());
  if (step == Step::kAnew || position_.empty()) return step;
  REMORA_ASSIGN_OR_RETURN(std::string position, PositionNow(client_));
  // Behind a restart, the new position says nothing of what was acknowledged before it.
  if (client_.incarnation() != incarnation_) return Compare();
  position_ = std::move(position);
  return Step::kSame;
}

absl::StatusOr<ServerHistory::Step> ServerHistory::CompareNow() {
  REMORA_RETURN_IF_ERROR(client_.Ping());
  return Compare();
}

std::string ServerHistory::mark() const {
  return absl::StrCat(absl::Hex(incarnation_, absl::kZeroPad16), AbslView(position_));
}

absl::Status HistoryCheck::Begin(std::string_view mark) {
  std::vector<std::string> marks(client_.size());
  if (!mark.empty()) marks = absl::StrSplit(AbslView(mark), kMarkSeparator);
  if (marks.size() != client_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("--resume: the resume token is of ", marks.size(),
                                                   " shards, and there are ", client_.size(),
                                                   " here; name the same topology"));
  }
  for (std::size_t i = 0; i < client_.size(); ++i) {
    REMORA_ASSIGN_OR_RETURN(Client* const server, client_.shard(i));
    const absl::Status begun = shards_.emplace_back(*server).Begin(marks[i]);
    if (!begun.ok()) return NameShard(client_.topology().shards()[i], begun);
  }
  return absl::OkStatus();
}

absl::StatusOr<ServerHistory::Step> HistoryCheck::Advance(std::size_t shard) {
  const absl::StatusOr<ServerHistory::Step> step = shards_[shard].Advance();
  if (!step.ok()) return NameShard(client_.topology().shards()[shard], step.status());
  return step;
}

absl::Status HistoryCheck::CompareNow() {
  absl::Status failed;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const absl::Status same = shards_[i].CompareNow().status();
    if (failed.ok()) failed = NameShard(client_.topology().shards()[i], same);
  }
  return failed;
}

std::string HistoryCheck::mark() const {
  return absl::StrJoin(shards_, absl::string_view(&kMarkSeparator, 1),
                       [](std::string* text, const ServerHistory& shard) { text->append(shard.mark()); });
}

bool HistoryCheck::is_lost() const { return std::ranges::any_of(shards_, &ServerHistory::is_lost); }

}  // namespace remora::kvctl
