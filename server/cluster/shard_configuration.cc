#include "server/cluster/shard_configuration.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "tools/json/json.h"

namespace remora {
namespace {

constexpr std::size_t kMaxAddress = 512;
// The largest integer in the text. No shard reaches it.
constexpr std::uint64_t kMaxNumber = std::numeric_limits<json_int_t>::max();

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
  if (next.epoch >= kMaxNumber || first > kMaxNumber) return NotAllowed(change, "there is no later epoch");
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
  if (!of.lineage.empty() && std::max(of.lineage.back().epoch, of.lineage.back().first) > kMaxNumber)
    return Malformed("a number in its lineage is too large");
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

std::optional<std::string> FromText(const json_t* value) {
  return json_is_string(value) ? std::optional(std::string(json::StringOf(value))) : std::nullopt;
}

std::optional<std::uint64_t> FromHex(const json_t* value) {
  const std::optional<std::string> text = FromText(value);
  std::uint64_t number = 0;
  if (!text || text->size() != 16 || !absl::SimpleHexAtoi(*text, &number) || Hex(number) != *text)
    return std::nullopt;
  return number;
}

std::optional<std::uint64_t> FromNumber(const json_t* value) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) return std::nullopt;
  return static_cast<std::uint64_t>(json_integer_value(value));
}

/// Takes the members of an object, and notes whether one is missing or malformed.
class Fields {
 public:
  explicit Fields(const json_t* object) : object_(object), is_good_(json_is_object(object)) {}

  template <typename T, typename Read>
  void Take(const char* name, T* to, Read read) {
    auto value = read(is_good_ ? json_object_get(object_, name) : nullptr);
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
    Take(name, to, [&read](const json_t* array) -> std::optional<std::vector<T>> {
      if (!json_is_array(array) || json_array_size(array) > kMaxElements) return std::nullopt;
      std::vector<T> all;
      for (std::size_t i = 0; i < json_array_size(array); ++i) {
        std::optional<T> one = read(json_array_get(array, i));
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
  const json_t* object_;
  bool is_good_;
  std::string bad_;
};

std::optional<Member> FromMember(const json_t* value) {
  Member member;
  Fields fields(value);
  fields.Take("id", &member.id, FromText);
  fields.Take("life", &member.life, FromHex);
  return fields.is_good() ? std::optional(member) : std::nullopt;
}

std::optional<EpochStart> FromEpoch(const json_t* value) {
  if (!json_is_array(value) || json_array_size(value) != 2) return std::nullopt;
  const std::optional<std::uint64_t> epoch = FromNumber(json_array_get(value, 0));
  const std::optional<std::uint64_t> first = FromNumber(json_array_get(value, 1));
  if (!epoch || !first) return std::nullopt;
  return EpochStart{.epoch = *epoch, .first = *first};
}

json_t* NewMembers(const std::vector<Member>& members) {
  json_t* const all = json_array();
  for (const Member& one : members) {
    json_t* const member = json_object();
    json_object_set_new(member, "id", json::NewString(one.id));
    json_object_set_new(member, "life", json::NewString(Hex(one.life)));
    json_array_append_new(all, member);
  }
  return all;
}

json_t* NewLineage(const std::vector<EpochStart>& lineage) {
  json_t* const all = json_array();
  for (const EpochStart& one : lineage) {
    json_t* const epoch = json_array();
    json_array_append_new(epoch, json::NewCount(one.epoch));
    json_array_append_new(epoch, json::NewCount(one.first));
    json_array_append_new(all, epoch);
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
  if (of.versions_from > kMaxVersionsFrom) return Malformed("versions_from is too large");
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
  const json::Value value(json_object());
  const auto set = [&value](const char* name, json_t* to) { json_object_set_new(value.get(), name, to); };
  json_t* const replicas = json_array();
  json_t* const addresses = json_object();
  for (const Replica& one : configuration.replicas) {
    json_array_append_new(replicas, json::NewString(one.id));
    json_object_set_new(addresses, one.id.c_str(), json::NewString(one.address));
  }
  set("epoch", json::NewCount(configuration.epoch));
  set("primary", json::NewString(configuration.primary));
  set("in_sync", NewMembers(configuration.in_sync));
  set("min_in_sync", json::NewCount(configuration.min_in_sync));
  set("complete", NewMembers(configuration.complete));
  set("replicas", replicas);
  set("addresses", addresses);
  set("lineage", NewLineage(configuration.lineage));
  if (configuration.versions_from != 0) set("versions_from", json::NewCount(configuration.versions_from));
  set("change", json::NewString(Hex(configuration.change)));
  return json::Text(value.get(), JSON_SORT_KEYS);
}

absl::StatusOr<ShardConfiguration> DecodeConfiguration(std::string_view text) {
  const auto damaged = [](std::string_view where) {
    return absl::DataLossError(absl::StrCat("configuration: the value in etcd is damaged, at ",
                                            AbslView(where), "; write a good one in its place by etcdctl"));
  };
  const json::Value value = json::Parse(text);
  if (!json_is_object(value.get())) return damaged("its beginning: it is no JSON object");
  ShardConfiguration result;
  std::vector<std::string> ids;
  Fields fields(value.get());
  fields.Take("epoch", &result.epoch, FromNumber);
  fields.Take("primary", &result.primary, FromText);
  fields.TakeAll("in_sync", &result.in_sync, FromMember);
  fields.Take("min_in_sync", &result.min_in_sync, [](const json_t* from) -> std::optional<std::uint32_t> {
    const std::optional<std::uint64_t> number = FromNumber(from);
    if (!number || *number > kMaxReplicas) return std::nullopt;
    return static_cast<std::uint32_t>(*number);
  });
  fields.TakeAll("complete", &result.complete, FromMember);
  fields.TakeAll("replicas", &ids, FromText);
  fields.TakeAll("lineage", &result.lineage, FromEpoch);
  fields.Take("versions_from", &result.versions_from, [](const json_t* from) {
    return from == nullptr ? std::optional(std::uint64_t{0}) : FromNumber(from);
  });
  fields.Take("change", &result.change, FromHex);
  Fields of_address(json_object_get(value.get(), "addresses"));
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

// --- Changes of an operator -----------------------------------------------------------------------------

namespace {

/// Sets the minimum, unless it is 0. Writes that go on now do not wait because of the change.
absl::StatusOr<ShardConfiguration> WithMinimum(const ShardConfiguration& now, ShardConfiguration next,
                                               std::string_view change, std::uint32_t min_in_sync) {
  if (min_in_sync != 0) next.min_in_sync = min_in_sync;
  if (next.min_in_sync > next.replicas.size()) {
    return NotAllowed(change, absl::StrCat("min_in_sync is ", next.min_in_sync, ", and the shard would have ",
                                           next.replicas.size(), " members; give a lower --min_in_sync"));
  }
  if (now.epoch != 0 && now.has_minimum() && !next.has_minimum()) {
    return NotAllowed(change, absl::StrCat("fewer than ", next.min_in_sync,
                                           " members would be in sync, and writes would wait; wait until "
                                           "another one is in sync, or give a lower --min_in_sync"));
  }
  if (next.has_minimum()) next.complete.clear();  // writes go on without them (K8)
  next.change = 0;
  REMORA_RETURN_IF_ERROR(CheckConfiguration(next));
  return next;
}

}  // namespace

absl::StatusOr<ShardConfiguration> RemoveReplica(const ShardConfiguration& now, std::string_view id,
                                                 std::uint32_t min_in_sync) {
  if (!Has(now.replicas, id)) return NotAllowed("remove", "the shard has no such member");
  if (id == now.primary) {
    return NotAllowed("remove",
                      "the member is the primary; make another one the primary first (kvctl cluster switch)");
  }
  if (now.replicas.size() == 1) return NotAllowed("remove", "the member is the last one of the shard");
  ShardConfiguration next = now;
  next.replicas.erase(FindId(next.replicas, id));
  Remove(&next.in_sync, id);
  Remove(&next.complete, id);
  return WithMinimum(now, std::move(next), "remove", min_in_sync);
}

absl::StatusOr<ShardConfiguration> AddReplica(const ShardConfiguration& now, const Replica& replica,
                                              std::uint32_t min_in_sync) {
  if (Has(now.replicas, replica.id)) return NotAllowed("add", "the shard has a member of this name already");
  for (const Replica& one : now.replicas) {
    if (one.address == replica.address) {
      return NotAllowed("add", absl::StrCat("member ", one.id, " has this address; give another one"));
    }
  }
  if (now.replicas.size() >= kMaxReplicas) {
    return NotAllowed("add", absl::StrCat("the shard has ", kMaxReplicas, " members; remove one first"));
  }
  ShardConfiguration next = now;
  next.replicas.insert(std::ranges::lower_bound(next.replicas, replica.id, {}, &Replica::id), replica);
  return WithMinimum(now, std::move(next), "add", min_in_sync);
}

absl::StatusOr<ShardConfiguration> ForceTakeOver(const ShardConfiguration& now, const Member& member,
                                                 std::uint64_t first, std::uint64_t versions_from) {
  if (now.epoch == 0) return NotAllowed("force", "the shard has not begun; start its members");
  if (!Has(now.replicas, member.id)) return NotAllowed("force", "the shard has no such member");
  ShardConfiguration before = now;
  std::erase_if(before.lineage, [&](const EpochStart& one) { return one.first > first; });  // K9
  REMORA_ASSIGN_OR_RETURN(ShardConfiguration next, NextEpoch(std::move(before), "force", first));
  next.primary = member.id;
  next.in_sync = {member};
  next.complete.clear();
  next.versions_from = std::max(now.versions_from, versions_from);  // K13
  REMORA_RETURN_IF_ERROR(CheckConfiguration(next));
  return next;
}

}  // namespace remora
