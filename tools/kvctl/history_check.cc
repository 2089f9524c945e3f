#include "tools/kvctl/history_check.h"

#include <charconv>
#include <cstddef>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/wire/resume_token.h"

namespace remora::kvctl {
namespace {

// Starts of the server that a comparison outlasts.
constexpr int kMaxStarts = 8;
constexpr std::size_t kIncarnationDigits = 16;

/// Returns the position behind all that was acknowledged. Empty: the store is only in memory.
absl::StatusOr<std::string> PositionNow(Client& client) {
  const absl::StatusOr<std::unique_ptr<ClientWatch>> watch = client.Watch();
  if (absl::IsFailedPrecondition(watch.status())) return std::string();
  if (!watch.ok()) return watch.status();
  return (*watch)->resume_token();
}

}  // namespace

absl::Status HistoryCheck::Begin(std::string_view mark) {
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

absl::StatusOr<HistoryCheck::Step> HistoryCheck::Compare() {
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

absl::Status HistoryCheck::CheckPosition() {
  if (position_.empty()) return Lost("it keeps its records only in memory");
  const absl::Status known = client_.Watch({.resume_token = position_}).status();
  const bool is_unknown =
      absl::IsOutOfRange(known) || absl::IsInvalidArgument(known) || absl::IsFailedPrecondition(known);
  return is_unknown ? Lost({known.message().data(), known.message().size()}) : known;
}

absl::Status HistoryCheck::Lost(std::string_view why) {
  is_lost_ = true;
  return absl::FailedPreconditionError(absl::StrCat(
      "the server was started anew since, and may have lost records of this copy: ", AbslView(why)));
}

absl::StatusOr<HistoryCheck::Step> HistoryCheck::Advance() {
  REMORA_ASSIGN_OR_RETURN(const Step step, Compare());
  if (step == Step::kAnew || position_.empty()) return step;
  REMORA_ASSIGN_OR_RETURN(std::string position, PositionNow(client_));
  // Behind a restart, the new position says nothing of what was acknowledged before it.
  if (client_.incarnation() != incarnation_) return Compare();
  position_ = std::move(position);
  return Step::kSame;
}

absl::StatusOr<HistoryCheck::Step> HistoryCheck::CompareNow() {
  REMORA_RETURN_IF_ERROR(client_.Ping());
  return Compare();
}

std::string HistoryCheck::mark() const {
  return absl::StrCat(absl::Hex(incarnation_, absl::kZeroPad16), AbslView(position_));
}

}  // namespace remora::kvctl
