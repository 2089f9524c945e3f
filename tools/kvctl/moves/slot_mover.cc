#include "tools/kvctl/moves/slot_mover.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/cluster_shard.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/shard_identity.h"
#include "store/format/cluster/slot.h"

namespace remora::kvctl {
namespace {

constexpr std::chrono::milliseconds kCopyPause{10};
constexpr std::chrono::milliseconds kShortPause{1};
// A server that was killed is started again, and loads.
constexpr std::chrono::seconds kServePatience{60};

}  // namespace

// --- Plans ----------------------------------------------------------------------------------------------

std::vector<PlannedMove> PlanMove(const Topology& topology, const ClusterSlots& slots, std::size_t to) {
  std::vector<PlannedMove> moves;
  for (std::size_t from = 0; from < topology.shards().size(); ++from) {
    PlannedMove move{.from = from, .to = to};
    for (std::uint32_t slot = 0; slot < kSlots && from != to; ++slot) {
      if (slots.Has(slot) && topology.ShardOfSlot(slot) == from) move.slots.Add(slot, slot);
    }
    if (!move.slots.empty()) moves.push_back(move);
  }
  return moves;
}

std::vector<PlannedMove> PlanRebalance(const Topology& topology) {
  const std::size_t count = topology.shards().size();
  std::vector<std::vector<std::uint32_t>> has(count);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) has[topology.ShardOfSlot(slot)].push_back(slot);
  // The shards with the most slots keep the ones that are left over, so that the fewest move.
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t shard) { return has[shard].size(); });
  std::vector<std::size_t> wanted(count, kSlots / count);
  for (std::size_t i = 0; i < kSlots % count; ++i) ++wanted[order[i]];
  std::vector<PlannedMove> moves;
  for (std::size_t to = 0; to < count; ++to) {
    for (std::size_t from = 0; from < count && has[to].size() < wanted[to]; ++from) {
      if (has[from].size() <= wanted[from]) continue;
      PlannedMove move{.from = from, .to = to};
      while (has[from].size() > wanted[from] && has[to].size() < wanted[to]) {
        move.slots.Add(has[from].back(), has[from].back());
        has[to].push_back(has[from].back());
        has[from].pop_back();
      }
      moves.push_back(move);
    }
  }
  return moves;
}

std::vector<ClusterSlots> DivideSlots(const ClusterSlots& slots, std::uint32_t most) {
  std::vector<ClusterSlots> parts;
  std::uint32_t count = most;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (!slots.Has(slot)) continue;
    if (count == most) {
      parts.emplace_back();
      count = 0;
    }
    parts.back().Add(slot, slot);
    ++count;
  }
  return parts;
}

// --- One move -------------------------------------------------------------------------------------------

absl::StatusOr<std::string> SlotMover::ToSource(const char* command) const {
  absl::StatusOr<std::string> answer = source_->Move(absl::StrCat(command, " ", move_));
  if (!answer.ok()) return NameShard(Place(now_.from), answer.status());
  return answer;
}

absl::StatusOr<std::string> SlotMover::ToDestination(const char* command) const {
  absl::StatusOr<std::string> answer = destination_->Move(absl::StrCat(command, " ", move_));
  if (!answer.ok()) return NameShard(Place(now_.to), answer.status());
  return answer;
}

std::string SlotMover::WhyAt(Client& server, const ShardPlace& shard, std::uint64_t incarnation) const {
  const absl::StatusOr<std::string> why = server.Move(absl::StrCat("why ", move_));
  if (why.ok() && *why != "unknown") return absl::StrCat(ShownAs(shard), " gave it up: ", *why);
  if (server.incarnation() != incarnation && server.incarnation() != 0) {
    return absl::StrCat(ShownAs(shard),
                        " has another server since: it was started again, or another member took over");
  }
  return why.ok() ? "" : absl::StrCat(ShownAs(shard), ": ", why.status().message());
}

absl::Status SlotMover::WasGivenUp(absl::string_view when) const {
  std::string faults = WhyAt(*source_, Place(now_.from), source_incarnation_);
  if (!is_in_etcd_ || faults.empty()) {
    const std::string other = WhyAt(*destination_, Place(now_.to), destination_incarnation_);
    absl::StrAppend(&faults, !faults.empty() && !other.empty() ? "; " : "", other);
  }
  if (faults.empty()) faults = "no server knows why; see their logs";
  return absl::AbortedError(absl::StrCat("move: it ended ", when,
                                         ", and the slots stay where they are: ", faults,
                                         "; `kvctl cluster status` shows the shards; run the command again"));
}

absl::Status SlotMover::Move(const PlannedMove& move, std::uint64_t bytes_per_second) {
  move_ = ClusterText(RandomId());
  REMORA_ASSIGN_OR_RETURN(source_, clients_(move.from));
  REMORA_ASSIGN_OR_RETURN(destination_, clients_(move.to));
  now_ = move;
  source_incarnation_ = source_->incarnation();
  destination_incarnation_ = destination_->incarnation();
  absl::Status status = Begin(move, bytes_per_second);
  if (status.ok()) status = AwaitCopy();
  const TimePoint closed = clock_.Now();
  if (status.ok()) status = CloseAndConfirm();
  if (!status.ok()) {
    Cancel();
    return status;
  }
  REMORA_RETURN_IF_ERROR(Give(move));
  status = AwaitServing(move);
  pause_ = clock_.Now() - closed;
  return status;
}

absl::Status SlotMover::Begin(const PlannedMove& move, std::uint64_t bytes_per_second) {
  // The source first: it has one move at a time, so one that it had before has ended.
  const absl::StatusOr<std::string> begun = source_->Move(absl::StrCat(
      "begin ", move_, " ", SlotsText(move.slots), " ", Place(move.to).name, " ", bytes_per_second));
  if (!begun.ok()) return NameShard(Place(move.from), begun.status());
  return is_in_etcd_ ? absl::OkStatus() : BeginToTake(move);
}

absl::Status SlotMover::BeginToTake(const PlannedMove& move) {
  const std::string take =
      absl::StrCat("take ", move_, " ", SlotsText(move.slots), " ", Place(move.from).name);
  absl::StatusOr<std::string> answer = destination_->Move(take);
  if (answer.ok() && absl::StartsWith(*answer, "confirmed ")) {
    // It keeps a copy of a move from another shard. That one may still swap, unless it has ended there.
    const std::string number = answer->substr(sizeof("confirmed ") - 1, kClusterDigits);
    const std::string shard = answer->substr(sizeof("confirmed ") + kClusterDigits);
    const auto found = std::ranges::find(topology_.shards(), shard, &ShardPlace::name);
    if (found == topology_.shards().end()) return absl::InternalError("move: the answer names no shard");
    REMORA_ASSIGN_OR_RETURN(Client* const other,
                            clients_(static_cast<std::size_t>(found - topology_.shards().begin())));
    const absl::StatusOr<std::string> state = other->Move("state " + number);
    if (!state.ok()) return NameShard(*found, state.status());
    if (*state != "none" && *state != "given") {
      return absl::UnavailableError("move: another move is in progress; try again once it has ended");
    }
    const absl::StatusOr<std::string> dropped = destination_->Move("cancel " + number);
    if (!dropped.ok()) return NameShard(Place(move.to), dropped.status());
    answer = destination_->Move(take);
  }
  return NameShard(Place(move.to), answer.status());
}

absl::Status SlotMover::AwaitCopy() {
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const std::string source, ToSource("state"));
    std::string destination = "prepared";
    if (!is_in_etcd_) {
      REMORA_ASSIGN_OR_RETURN(destination, ToDestination("state"));
    }
    if (source == "none" || destination == "none") return WasGivenUp("during the copy");
    if (absl::StartsWith(source, "ready") && destination == "prepared") return absl::OkStatus();
    clock_.Sleep(kCopyPause);
    if (clock_.IsInterrupted()) return absl::CancelledError("move: interrupted; nothing was moved");
  }
}

absl::Status SlotMover::CloseAndConfirm() {
  absl::StatusOr<std::string> closed = ToSource("close");
  // More was written meanwhile than may be left.
  while (absl::IsFailedPrecondition(closed.status())) {
    REMORA_RETURN_IF_ERROR(AwaitCopy());
    closed = ToSource("close");
  }
  REMORA_RETURN_IF_ERROR(closed.status());
  if (is_in_etcd_) return AwaitSource("confirmed");
  REMORA_RETURN_IF_ERROR(AwaitSource("sealed"));
  return ToDestination("confirm").status();
}

absl::Status SlotMover::AwaitSource(const char* state) {
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const std::string now, ToSource("state"));
    if (absl::StartsWith(now, state)) return absl::OkStatus();
    if (!absl::StartsWith(now, "closing") && !absl::StartsWith(now, "sealed")) {
      return WasGivenUp("while the slots were closed");
    }
    clock_.Sleep(kShortPause);
  }
}

Topology LatestOf(const Topology& topology, std::span<Client* const> clients) {
  std::optional<Topology> latest;
  for (Client* const client : clients) {
    const absl::StatusOr<std::string> text = client->ReadTopology();
    if (!text.ok()) continue;
    absl::StatusOr<Topology> one = TopologyInAnswer(*text, "", topology.path());
    if (!one.ok() || !one->HasNamesOf(topology)) continue;
    if (!latest || one->revision() > latest->revision()) latest.emplace(*std::move(one));
  }
  return latest && latest->revision() >= topology.revision() ? *std::move(latest) : topology;
}

absl::StatusOr<Topology> SlotMover::ReadNow() const {
  if (!is_in_etcd_) return Topology::Read(topology_.path());
  return LatestOf(topology_, std::array<Client*, 2>{source_, destination_});
}

absl::Status SlotMover::Give(const PlannedMove& move) {
  absl::StatusOr<std::string> given = ToSource("give");
  while (given.ok() && *given == "again") {
    clock_.Sleep(kShortPause);
    given = ToSource("give");
    if (clock_.IsInterrupted()) {
      return absl::CancelledError(
          "move: interrupted while the division is changed; the servers settle it by themselves");
    }
  }
  if (given.ok()) return absl::OkStatus();
  // The text knows what came of it, once the source does not swap any more.
  const absl::StatusOr<std::string> ended = ToSource("cancel");
  if (!ended.ok()) return given.status();
  REMORA_ASSIGN_OR_RETURN(const Topology now, ReadNow());
  const std::vector<PlannedMove> left = PlanMove(now, move.slots, move.to);
  if (left.empty()) return absl::OkStatus();
  if (!is_in_etcd_) ToDestination("cancel").status().IgnoreError();
  if (absl::IsFailedPrecondition(given.status())) return WasGivenUp("before the division was changed");
  return given.status();
}

absl::Status SlotMover::AwaitServing(const PlannedMove& move) {
  const TimePoint until = clock_.Now() + kServePatience;
  for (;;) {
    const absl::StatusOr<std::string> state = ToDestination("serve");
    // A destination that was started again took the records in by itself.
    if (state.ok() ? *state == "own" : absl::IsFailedPrecondition(state.status())) return absl::OkStatus();
    if (clock_.Now() >= until) {
      if (!state.ok()) return state.status();
      return NameShard(Place(move.to),
                       absl::DeadlineExceededError(
                           "move: the slots are this server's, and it does not serve them yet; its log says "
                           "why"));
    }
    clock_.Sleep(kShortPause);
  }
}

void SlotMover::Cancel() {
  // Only once the source will not swap any more may the destination drop what it has.
  if (ToSource("cancel").ok() && !is_in_etcd_) ToDestination("cancel").status().IgnoreError();
}

}  // namespace remora::kvctl
