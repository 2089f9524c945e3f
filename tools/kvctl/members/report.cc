#include "tools/kvctl/members/report.h"

#include <jansson.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/command_line/say.h"
#include "tools/json/json.h"

namespace remora::kvctl {
namespace {

struct Names {
  const char* text;
  const char* json;
};

Names NamesOf(MemberPart part) {
  switch (part) {
    case MemberPart::kPrimary:
      return {"primary", "primary"};
    case MemberPart::kInSync:
      return {"in sync", "in_sync"};
    case MemberPart::kComplete:
      return {"complete", "complete"};
    case MemberPart::kOut:
      break;
  }
  return {"out", "out"};
}

Names NamesOf(MemberState state) {
  switch (state) {
    case MemberState::kServes:
      return {"serves", "serves"};
    case MemberState::kOpens:
      return {"opens", "opens"};
    case MemberState::kFollows:
      return {"follows", "follows"};
    case MemberState::kLoads:
      return {"loads", "loads"};
    case MemberState::kIsAlone:
      return {"is alone", "is_alone"};
    case MemberState::kNoAnswer:
      break;
  }
  return {"does not answer", "no_answer"};
}

bool Has(const std::vector<Member>& members, const std::string& id) {
  return std::ranges::find(members, id, &Member::id) != members.end();
}

MemberPart PartOf(const ShardConfiguration& of, const std::string& id) {
  if (of.epoch != 0 && of.primary == id) return MemberPart::kPrimary;
  if (Has(of.in_sync, id)) return MemberPart::kInSync;
  return Has(of.complete, id) ? MemberPart::kComplete : MemberPart::kOut;
}

/// Returns why a member beside the primary is no full one. Empty: it is one.
std::string TroubleOf(const MemberLine& member) {
  const bool is_in_sync = member.part == MemberPart::kInSync;
  const bool follows = member.answer.state == MemberState::kFollows;
  if (is_in_sync && follows) return "";
  std::string trouble = is_in_sync ? member.id : absl::StrCat(member.id, " is not in sync");
  if (!follows) {
    absl::StrAppend(&trouble, is_in_sync ? " " : " and ", NamesOf(member.answer.state).text);
  }
  return trouble;
}

json_t* ToJson(const MemberLine& member) {
  const bool answers = member.answer.state != MemberState::kNoAnswer;
  json_t* const lacks = member.lacks ? json::NewCount(*member.lacks) : json_null();
  json_t* const epoch = answers ? json::NewCount(member.answer.epoch) : json_null();
  json_t* const error = answers ? json_null() : json::NewString(member.answer.failure.error);
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "id", member.id.c_str(), "part",
                   NamesOf(member.part).json, "address", member.address.c_str(), "state",
                   NamesOf(member.answer.state).json, "epoch", epoch, "writes_lacking", lacks, "error",
                   error);
}

}  // namespace

MemberAnswer AnswerIn(const std::vector<std::pair<std::string, std::uint64_t>>& metrics) {
  const auto value = [&](std::string_view name) {
    const auto found = std::ranges::find(metrics, name, &std::pair<std::string, std::uint64_t>::first);
    return found == metrics.end() ? 0 : found->second;
  };
  constexpr MemberState kStates[] = {MemberState::kIsAlone, MemberState::kFollows, MemberState::kOpens,
                                     MemberState::kServes};
  const std::uint64_t role = std::min<std::uint64_t>(value("replication_role"), std::size(kStates) - 1);
  return {.state = value("loading") != 0 ? MemberState::kLoads : kStates[role],
          .epoch = value("replication_epoch"),
          .last_version = value("last_version"),
          .rejects_writes = value("disk_refuses") != 0 || value("memory_refuses") != 0};
}

MembersReport::MembersReport(std::string shard, ShardConfiguration configuration,
                             std::vector<MemberAnswer> answers)
    : shard_(std::move(shard)), configuration_(std::move(configuration)) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Replica& replica = configuration_.replicas[i];
    members_.push_back({.id = replica.id,
                        .address = replica.address,
                        .part = PartOf(configuration_, replica.id),
                        .answer = std::move(answers[i])});
  }
  const MemberLine* const primary = this->primary();
  if (primary == nullptr || primary->answer.state != MemberState::kServes) return;
  const std::uint64_t last = primary->answer.last_version;
  for (MemberLine& member : members_) {
    const MemberAnswer& answer = member.answer;
    if (answer.state != MemberState::kServes && answer.state != MemberState::kFollows) continue;
    member.lacks = last - std::min(last, answer.last_version);
  }
}

const MemberLine* MembersReport::primary() const {
  const auto found = std::ranges::find(members_, MemberPart::kPrimary, &MemberLine::part);
  return found == members_.end() ? nullptr : &*found;
}

std::string MembersReport::ToText() const {
  std::size_t width = 6;
  for (const MemberLine& member : members_) width = std::max(width, member.id.size());
  const int id_width = static_cast<int>(width);
  std::string text = absl::StrFormat("shard %s: epoch %d, min_in_sync %d, %d of %d members in sync\n", shard_,
                                     configuration_.epoch, configuration_.min_in_sync,
                                     configuration_.in_sync.size(), members_.size());
  absl::StrAppendFormat(&text, "%-*s  %-8s  %-15s  %5s  %7s  %s\n", id_width, "member", "part", "state",
                        "epoch", "lacks", "address");
  for (const MemberLine& member : members_) {
    const MemberAnswer& answer = member.answer;
    const bool answers = answer.state != MemberState::kNoAnswer;
    absl::StrAppendFormat(&text, "%-*s  %-8s  %-15s  %5s  %7s  %s%s\n", id_width, member.id,
                          NamesOf(member.part).text, NamesOf(answer.state).text,
                          answers ? absl::StrCat(answer.epoch) : "-",
                          member.lacks ? absl::StrCat(*member.lacks) : "-", member.address,
                          answers ? "" : ": " + command_line::Printable(answer.failure.error));
  }
  return text;
}

std::string MembersReport::ToJson() const {
  const json::Value object(json_object());
  json_object_set_new(object.get(), "shard", json_string(shard_.c_str()));
  json_object_set_new(object.get(), "epoch", json::NewCount(configuration_.epoch));
  json_object_set_new(object.get(), "min_in_sync", json_integer(configuration_.min_in_sync));
  json_t* const members = json_array();
  for (const MemberLine& member : members_) json_array_append_new(members, kvctl::ToJson(member));
  json_object_set_new(object.get(), "members", members);
  return json::Text(object.get(), JSON_ENSURE_ASCII) + "\n";
}

Outcome MembersReport::Verdict() const {
  const MemberLine* const primary = this->primary();
  if (primary == nullptr) {
    return {EX_UNAVAILABLE, absl::StrCat("shard ", shard_,
                                         ": it has not begun, as no member has served yet; "
                                         "start its members, and see their logs")};
  }
  const MemberAnswer& answer = primary->answer;
  if (answer.state == MemberState::kNoAnswer) {
    return {answer.failure.exit_code, absl::StrCat("shard ", shard_, ": its primary ", primary->id, " (",
                                                   primary->address, "): ", answer.failure.error)};
  }
  if (answer.state != MemberState::kServes || answer.epoch < configuration_.epoch) {
    return {
        EX_UNAVAILABLE,
        absl::StrFormat("shard %s: no member serves: its primary %s %s in epoch %d of %d; see its log, and "
                        "whether min_in_sync members run",
                        shard_, primary->id, NamesOf(answer.state).text, answer.epoch, configuration_.epoch)};
  }
  std::string troubles;
  if (answer.rejects_writes) troubles = absl::StrCat("the primary ", primary->id, " rejects writes");
  for (const MemberLine& member : members_) {
    if (&member == primary) continue;
    const std::string trouble = TroubleOf(member);
    if (!trouble.empty()) absl::StrAppend(&troubles, troubles.empty() ? "" : ", ", trouble);
  }
  if (troubles.empty()) return {};
  return {kExitProblem,
          absl::StrCat("shard ", shard_, configuration_.has_minimum() ? "" : ": writes wait for min_in_sync",
                       ": ", troubles, "; start those that do not run, and see their logs")};
}

}  // namespace remora::kvctl
