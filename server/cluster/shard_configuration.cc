#include "server/cluster/shard_configuration.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxAddress = 512;

absl::Status NotAllowed(std::string_view change, std::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(AbslView(change), ": ", AbslView(why)));
}

absl::Status Malformed(std::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("configuration: ", AbslView(why), "; see `kvctl cluster members`"));
}

bool IsOfId(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool IsPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

template <typename Entries>
auto FindId(Entries& entries, std::string_view id) {
  return std::ranges::find_if(entries, [&](const auto& one) { return one.id == id; });
}

template <typename Entries>
bool Has(const Entries& entries, std::string_view id) {
  return FindId(entries, id) != entries.end();
}

/// Returns whether the IDs ascend, each once.
template <typename Entries>
bool AreInOrder(const Entries& entries) {
  return std::ranges::adjacent_find(entries, [](const auto& a, const auto& b) { return a.id >= b.id; }) ==
         entries.end();
}

void Add(std::vector<Member>* members, const Member& member) {
  const auto place = std::ranges::lower_bound(*members, member.id, {}, &Member::id);
  if (place != members->end() && place->id == member.id) {
    *place = member;
  } else {
    members->insert(place, member);
  }
}

void Remove(std::vector<Member>* members, std::string_view id) {
  std::erase_if(*members, [&](const Member& one) { return one.id == id; });
}

/// Begins the next epoch.
absl::StatusOr<ShardConfiguration> NextEpoch(ShardConfiguration next, std::string_view change,
                                             std::uint64_t first) {
  if (next.epoch == std::numeric_limits<std::uint64_t>::max())
    return NotAllowed(change, "there is no later epoch");
  // K9
  if (first == 0 || (!next.lineage.empty() && first < next.lineage.back().first)) {
    return NotAllowed(
        change,
        absl::StrCat("group ", first, " lies before the epoch that it ends; begin with an empty --data_dir"));
  }
  ++next.epoch;
  next.lineage.push_back({.epoch = next.epoch, .first = first});
  if (next.lineage.size() > kMaxLineage) next.lineage.erase(next.lineage.begin());
  next.change = 0;
  return next;
}

absl::Status CheckPrimary(const ShardConfiguration& now, std::string_view change, std::string_view primary) {
  if (now.epoch != 0 && now.primary == primary) return absl::OkStatus();
  return NotAllowed(change, "another member is the primary; read the configuration again");
}

// --- Checks ---------------------------------------------------------------------------------------------

absl::Status CheckReplicas(const std::vector<Replica>& replicas) {
  if (replicas.empty() || replicas.size() > kMaxReplicas) return Malformed("it has 1 to 16 replicas");
  if (!AreInOrder(replicas)) return Malformed("its replicas are not in order");
  for (const Replica& one : replicas) {
    REMORA_RETURN_IF_ERROR(CheckMemberId(one.id));
    if (one.address.empty() || one.address.size() > kMaxAddress || !IsPrintable(one.address)) {
      return Malformed("the address of a replica is malformed");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMembers(const ShardConfiguration& of, const std::vector<Member>& members) {
  if (!AreInOrder(members)) return Malformed("its members are not in order");
  for (const Member& one : members) {
    if (one.life == 0 || !Has(of.replicas, one.id))
      return Malformed("a member has no life, or is no replica");
  }
  return absl::OkStatus();
}

absl::Status CheckLineage(const ShardConfiguration& of) {
  if (of.lineage.size() > kMaxLineage) return Malformed("its lineage is too long");
  const bool is_in_order =
      std::ranges::adjacent_find(of.lineage, [](const EpochStart& a, const EpochStart& b) {
        return a.epoch >= b.epoch || a.first > b.first;
      }) == of.lineage.end();
  const bool is_complete = of.lineage.empty() ? of.epoch == 0 : of.lineage.back().epoch == of.epoch;
  if (is_in_order && is_complete &&
      (of.lineage.empty() || (of.lineage[0].epoch != 0 && of.lineage[0].first != 0))) {
    return absl::OkStatus();
  }
  return Malformed("its lineage is not in order");
}

// --- JSON -----------------------------------------------------------------------------------------------

std::string Hex(std::uint64_t number) { return absl::StrCat(absl::Hex(number, absl::kZeroPad16)); }

std::optional<std::uint64_t> FromHex(const Json& json) {
  std::uint64_t number = 0;
  if (!json.is_string()) return std::nullopt;
  const std::string& text = json.get_ref<const std::string&>();
  if (text.size() != 16 || !absl::SimpleHexAtoi(text, &number) || Hex(number) != text) return std::nullopt;
  return number;
}

std::optional<std::string> FromText(const Json& json) {
  return json.is_string() ? std::optional(json.get<std::string>()) : std::nullopt;
}

std::optional<std::uint64_t> FromNumber(const Json& json) {
  return json.is_number_unsigned() ? std::optional(json.get<std::uint64_t>()) : std::nullopt;
}

/// Takes the members of an object, and notes whether one is missing or malformed.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object), is_good_(object.is_object()) {}

  template <typename T, typename Read>
  void Take(const char* name, T* to, Read read) {
    const auto found = is_good_ ? object_.find(name) : object_.end();
    auto value = found == object_.end() ? decltype(read(*found))() : read(*found);
    if (value) {
      *to = static_cast<T>(*std::move(value));
    } else if (is_good_) {
      is_good_ = false;
      bad_ = name;
    }
  }
  /// Takes an array, each of whose elements `read` reads.
  template <typename T, typename Read>
  void TakeAll(const char* name, std::vector<T>* to, Read read) {
    Take(name, to, [&read](const Json& json) -> std::optional<std::vector<T>> {
      if (!json.is_array() || json.size() > kMaxElements) return std::nullopt;
      std::vector<T> all;
      for (const Json& element : json) {
        std::optional<T> one = read(element);
        if (!one) return std::nullopt;
        all.push_back(*std::move(one));
      }
      return all;
    });
  }
  bool is_good() const { return is_good_; }
  /// The first field that is missing or malformed. Empty: the value is no object.
  const std::string& bad() const { return bad_; }

 private:
  static constexpr std::size_t kMaxElements = 256;
  const Json& object_;
  bool is_good_;
  std::string bad_;
};

std::optional<Member> FromMember(const Json& json) {
  Member member;
  Fields fields(json);
  fields.Take("id", &member.id, FromText);
  fields.Take("life", &member.life, FromHex);
  return fields.is_good() ? std::optional(member) : std::nullopt;
}

std::optional<EpochStart> FromEpoch(const Json& json) {
  if (!json.is_array() || json.size() != 2) return std::nullopt;
  const std::optional<std::uint64_t> epoch = FromNumber(json[0]), first = FromNumber(json[1]);
  if (!epoch || !first) return std::nullopt;
  return EpochStart{.epoch = *epoch, .first = *first};
}

Json ToJson(const std::vector<Member>& members) {
  Json all = Json::array();
  for (const Member& one : members) {
    Json member = Json::object();
    member["id"] = one.id;
    member["life"] = Hex(one.life);
    all.push_back(std::move(member));
  }
  return all;
}

}  // namespace

bool ShardConfiguration::IsInSync(const Member& member) const {
  return std::ranges::find(in_sync, member) != in_sync.end();
}

bool ShardConfiguration::MayTakeOver(const Member& member) const {
  return IsInSync(member) || std::ranges::find(complete, member) != complete.end();
}

std::string_view ShardConfiguration::AddressOf(std::string_view id) const {
  const auto found = FindId(replicas, id);
  return found == replicas.end() ? std::string_view() : std::string_view(found->address);
}

absl::Status CheckMemberId(std::string_view id) {
  if (!id.empty() && id.size() <= kMaxMemberId && std::ranges::all_of(id, IsOfId)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("configuration: '", absl::CHexEscape(AbslView(id.substr(0, 2 * kMaxMemberId))),
                   "' is no name of a member or a shard; use 1 to 64 of a-z, 0-9, '-', '_' and '.'"));
}

absl::Status CheckConfiguration(const ShardConfiguration& configuration) {
  const ShardConfiguration& of = configuration;
  REMORA_RETURN_IF_ERROR(CheckReplicas(of.replicas));
  REMORA_RETURN_IF_ERROR(CheckMembers(of, of.in_sync));
  REMORA_RETURN_IF_ERROR(CheckMembers(of, of.complete));
  REMORA_RETURN_IF_ERROR(CheckLineage(of));
  if (of.min_in_sync == 0 || of.min_in_sync > of.replicas.size()) {
    return Malformed("min_in_sync is not from 1 to the number of replicas");
  }
  if (of.epoch == 0) {
    if (of.primary.empty() && of.in_sync.empty() && of.complete.empty()) return absl::OkStatus();
    return Malformed("it has members in sync, and no epoch");
  }
  if (!Has(of.in_sync, of.primary)) return Malformed("its primary is not in sync");
  for (const Member& one : of.complete) {
    if (Has(of.in_sync, one.id)) return Malformed("a member is in sync, and complete beside that");
  }
  // K8
  if (!of.complete.empty() && of.has_minimum())
    return Malformed("it has complete members, and its minimum is met");
  return absl::OkStatus();
}

std::string EncodeConfiguration(const ShardConfiguration& configuration) {
  REMORA_CHECK(CheckConfiguration(configuration).ok());
  Json json = Json::object();
  json["epoch"] = configuration.epoch;
  json["primary"] = configuration.primary;
  json["in_sync"] = ToJson(configuration.in_sync);
  json["min_in_sync"] = configuration.min_in_sync;
  json["complete"] = ToJson(configuration.complete);
  Json replicas = Json::array(), addresses = Json::object(), lineage = Json::array();
  for (const Replica& one : configuration.replicas) {
    replicas.push_back(one.id);
    addresses[one.id] = one.address;
  }
  for (const EpochStart& one : configuration.lineage) lineage.push_back(Json::array({one.epoch, one.first}));
  json["replicas"] = std::move(replicas);
  json["addresses"] = std::move(addresses);
  json["lineage"] = std::move(lineage);
  json["change"] = Hex(configuration.change);
  return json.dump();
}

absl::StatusOr<ShardConfiguration> DecodeConfiguration(std::string_view text) {
  const auto damaged = [](std::string_view where) {
    return absl::DataLossError(absl::StrCat("configuration: the value in etcd is damaged, at ",
                                            AbslView(where), "; write a good one in its place by etcdctl"));
  };
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return damaged("its beginning: it is no JSON object");
  ShardConfiguration result;
  std::vector<std::string> ids;
  Json addresses;
  Fields fields(json);
  fields.Take("epoch", &result.epoch, FromNumber);
  fields.Take("primary", &result.primary, FromText);
  fields.TakeAll("in_sync", &result.in_sync, FromMember);
  fields.Take("min_in_sync", &result.min_in_sync, [](const Json& value) -> std::optional<std::uint32_t> {
    const std::optional<std::uint64_t> number = FromNumber(value);
    if (!number || *number > kMaxReplicas) return std::nullopt;
    return static_cast<std::uint32_t>(*number);
  });
  fields.TakeAll("complete", &result.complete, FromMember);
  fields.TakeAll("replicas", &ids, FromText);
  fields.Take("addresses", &addresses, [](const Json& value) { return std::optional(value); });
  fields.TakeAll("lineage", &result.lineage, FromEpoch);
  fields.Take("change", &result.change, FromHex);
  Fields of_address(addresses);
  for (const std::string& id : ids) {
    std::string address;
    of_address.Take(id.c_str(), &address, FromText);
    result.replicas.push_back({.id = id, .address = std::move(address)});
  }
  if (!fields.is_good()) return damaged(fields.bad());
  if (!of_address.is_good()) return damaged("addresses");
  if (const absl::Status checked = CheckConfiguration(result); !checked.ok())
    return damaged(StdView(checked.message()));
  return result;
}

// --- Changes --------------------------------------------------------------------------------------------

absl::StatusOr<ShardConfiguration> FirstConfiguration(std::vector<Replica> replicas,
                                                      std::uint32_t min_in_sync) {
  ShardConfiguration first;
  first.replicas = std::move(replicas);
  first.min_in_sync = min_in_sync;
  std::ranges::sort(first.replicas, {}, &Replica::id);
  REMORA_RETURN_IF_ERROR(CheckConfiguration(first));
  return first;
}

absl::StatusOr<ShardConfiguration> BeginShard(const ShardConfiguration& now, const Member& member) {
  if (now.epoch != 0) return NotAllowed("begin", "the shard has begun already; read the configuration again");
  if (!Has(now.replicas, member.id))
    return NotAllowed("begin", "this member is no replica; correct --member");
  REMORA_ASSIGN_OR_RETURN(ShardConfiguration next, NextEpoch(now, "begin", 1));
  next.primary = member.id;
  next.in_sync = {member};
  return next;
}

absl::StatusOr<ShardConfiguration> TakeOver(const ShardConfiguration& now, const Member& member,
                                            std::uint64_t first) {
  if (!now.MayTakeOver(member)) {  // K7
    return NotAllowed("takeover", "this member may lack acknowledged writes; it has to join first");
  }
  REMORA_ASSIGN_OR_RETURN(ShardConfiguration next, NextEpoch(now, "takeover", first));
  Remove(&next.in_sync, next.primary);
  Add(&next.in_sync, member);
  next.primary = member.id;
  next.complete.clear();
  return next;
}

absl::StatusOr<ShardConfiguration> Shrink(const ShardConfiguration& now, std::string_view primary,
                                          bool is_open, std::string_view leaves) {
  REMORA_RETURN_IF_ERROR(CheckPrimary(now, "shrink", primary));
  const auto found = FindId(now.in_sync, leaves);
  if (found == now.in_sync.end()) return NotAllowed("shrink", "the member is not in sync");
  if (leaves == primary) return NotAllowed("shrink", "the primary cannot leave itself out");
  const bool is_at_minimum = now.in_sync.size() <= now.min_in_sync;
  if (is_at_minimum && !now.complete.empty()) {
    return NotAllowed("shrink", "the set is below its minimum, and has complete members");
  }
  ShardConfiguration next = now;
  if (is_at_minimum && is_open) Add(&next.complete, *found);  // K8
  Remove(&next.in_sync, leaves);
  next.change = 0;
  return next;
}

absl::StatusOr<ShardConfiguration> Join(const ShardConfiguration& now, std::string_view primary,
                                        const Member& joins) {
  REMORA_RETURN_IF_ERROR(CheckPrimary(now, "join", primary));
  if (!Has(now.replicas, joins.id)) return NotAllowed("join", "the member is no replica");
  if (Has(now.in_sync, joins.id)) return NotAllowed("join", "the member is in sync already");
  ShardConfiguration next = now;
  Add(&next.in_sync, joins);
  next.complete.clear();  // K8
  next.change = 0;
  return next;
}

absl::StatusOr<ShardConfiguration> Switch(const ShardConfiguration& now, std::string_view primary,
                                          std::string_view to, std::uint64_t first) {
  REMORA_RETURN_IF_ERROR(CheckPrimary(now, "switch", primary));
  if (to == primary) return NotAllowed("switch", "the member is the primary already");
  if (!Has(now.in_sync, to)) return NotAllowed("switch", "the member is not in sync; choose one that is");
  if (!now.complete.empty())
    return NotAllowed("switch", "the set is below its minimum; wait until a member joins");
  REMORA_ASSIGN_OR_RETURN(ShardConfiguration next, NextEpoch(now, "switch", first));
  next.primary = to;
  return next;
}

}  // namespace remora
