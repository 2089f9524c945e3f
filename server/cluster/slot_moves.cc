#include "server/cluster/slot_moves.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/request/request_decoder.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/wire/messages.h"

namespace remora {
namespace {

std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t size = std::min(text.find(' '), text.size());
    if (size > 0) words.push_back(text.substr(0, size));
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return words;
}

absl::Status NoCommand() {
  return absl::InvalidArgumentError("move: the server does not know the command; use kvctl of its release");
}

absl::Status MoveBusy() {
  return absl::UnavailableError("move: another move is in progress; try again once it has ended");
}

absl::Status NotHere() {
  return absl::FailedPreconditionError(
      "move: the server has no such move, or not any more: it was given up; its log says why");
}

/// Returns the number that a word is; nothing: it is none.
std::optional<std::uint64_t> NumberIn(std::string_view word) {
  std::uint64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [read, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && read == end ? std::optional(number) : std::nullopt;
}

void RemoveCopies(const SlotDivision& division) {
  for (const ShardIdentity& to : {division.self(), ShardIdentity()}) {
    for (const std::string& file : FilesWithPrefix(division.CopyPrefix(to))) RemoveSynced(file).IgnoreError();
  }
}

}  // namespace

absl::StatusOr<SlotsAtStart> ReadSlotsAtStart(SlotDivision& division) {
  SlotsAtStart start;
  REMORA_ASSIGN_OR_RETURN(start.division, division.Own());
  start.own = start.division;
  for (const std::string& file : FilesWithPrefix(division.CopyPrefix(division.self()))) {
    if (!file.ends_with(kConfirmedSuffix)) {
      REMORA_RETURN_IF_ERROR(RemoveSynced(file));
      continue;
    }
    if (start.confirmed != nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "move: two copies of slots are confirmed; remove the older one, ", file, " or another"));
    }
    REMORA_ASSIGN_OR_RETURN(start.confirmed, ReadSlotCopy(file));
  }
  if (start.confirmed == nullptr) return start;
  const ClusterSlots coming = SlotsOfCopy(start.confirmed->header);
  // They are served once the copy is taken in.
  if (start.division.HasAll(coming)) {
    start.own = start.division;
    start.own.Remove(coming);
  }
  return start;
}

SlotMoves::SlotMoves(ServerStore& store, SlotDivision& division, const OperatorLog& log, bool has_disk,
                     SlotsAtStart start)
    : store_(store),
      division_(division),
      division_at_start_(start.division),
      giving_(store.NewSlotTransfer()),
      taking_(store.NewSlotTransfer()),
      source_({store, *giving_, division, log, has_disk}),
      destination_({store, *taking_, division, log, has_disk}, std::move(start.confirmed)) {
  ShowMetric();
}

SlotMoves::SlotMoves(ServerStore& store, const OperatorLog& log, MovingMember member)
    : store_(store),
      member_(std::move(member)),
      division_(member_->division),
      giving_(store.NewSlotTransfer()),
      taking_(store.NewSlotTransfer()),
      source_({store, *giving_, division_, log, /*has_disk=*/true, &*member_}),
      destination_({store, *taking_, division_, log, /*has_disk=*/true, &*member_}, nullptr) {
  RemoveCopies(division_);
  ShowMetric();
}

absl::Status SlotMoves::CheckStart() {
  if (member_) return absl::OkStatus();  // it reads the division once it leads
  REMORA_ASSIGN_OR_RETURN(const ClusterSlots own, division_.Own());
  if (own == division_at_start_) return absl::OkStatus();
  return absl::AbortedError(
      "move: the division of the slots changed while the server started; start it again");
}

void SlotMoves::Take(const PendingRequest& pending, ReplySender& replies, bool may_replicate) {
  // Copied, then verified, then looked at: the client may still be writing.
  const auto shared = pending.session->DecodePart(pending.request);
  const std::string copy(reinterpret_cast<const char*>(shared.data()), shared.size());
  if (!VerifyPayload(&pending.request, HashKey({}), HashValue(copy.data(), copy.size()))) {
    return replies.Answer(
        pending, absl::DataLossError("move: the command does not match its checksum; send it again"));
  }
  const absl::StatusOr<std::string> answer = Do(copy, may_replicate);
  if (!answer.ok()) return replies.Answer(pending, answer.status());
  Reply reply;
  reply.request_id = pending.request.request_id;
  replies.Send(pending.session, reply, *answer);
}

absl::StatusOr<std::string> SlotMoves::Do(std::string_view command, bool may_replicate) {
  absl::StatusOr<std::string> answer = DoCommand(command, may_replicate);
  ShowMetric();
  return answer;
}

void SlotMoves::ShowMetric() {
  const int moves = (source_.is_idle() ? 0 : 1) + (destination_.is_idle() ? 0 : 1);
  if (moves != shown_) store_.Add(Metric::kSlotMoves, moves - std::exchange(shown_, moves));
}

absl::StatusOr<std::string> SlotMoves::DoCommand(std::string_view command, bool may_replicate) {
  const std::string_view line = command.substr(0, command.find('\n'));
  const std::string_view bytes = command.substr(std::min(line.size() + 1, command.size()));
  const Words words = WordsOf(line);
  if (line == "failures") return Failures();
  const std::uint64_t move = words.size() >= 2 ? MoveIn(words[1]) : 0;
  if (move == 0) return NoCommand();
  if (words[0] == "why" && words.size() == 2) return Why(move);
  if (member_ && member_->state().epoch == 0) {
    return absl::FailedPreconditionError(
        "move: this server is not the primary of its shard, or not yet; use another member, or wait");
  }
  const bool is_of_shard = words[0] == "take" || words[0] == "part" || words[0] == "confirm";
  if (member_ && is_of_shard && !may_replicate) {
    return absl::UnauthenticatedError("move: this needs a token with the role replication");
  }
  if (member_ && !bytes.empty()) return DoOfShard(move, words, bytes);
  if (words[0] == "begin" && words.size() == 5) return Begin(move, words);
  if (words[0] == "take" && words.size() == 4) return TakeSlots(move, words);
  constexpr std::array<std::string_view, 6> kOfMove = {"state", "close", "confirm",
                                                       "give",  "serve", "cancel"};
  if (words.size() != 2 || std::ranges::find(kOfMove, words[0]) == kOfMove.end()) return NoCommand();
  const TimePoint now = store_.clock().Now();
  if (!source_.is_idle() && source_.move() == move) {
    source_.Hear(now);
    return DoOfSource(words[0]);
  }
  if (!destination_.is_idle() && destination_.move() == move) {
    destination_.Hear(now);
    return DoOfDestination(words[0]);
  }
  if (words[0] == "cancel") return "ok";
  if (source_.given() == move && (words[0] == "give" || words[0] == "state")) return "given";
  if (destination_.taken() == move && words[0] != "close") return "own";
  if (words[0] == "state") return "none";
  return NotHere();
}

absl::StatusOr<std::string> SlotMoves::Begin(std::uint64_t move, const Words& words) {
  const std::optional<ClusterSlots> slots = SlotsIn(words[2]);
  const std::optional<std::uint64_t> rate = NumberIn(words[4]);
  if (!slots || !rate) return NoCommand();
  if (!source_.is_idle() && source_.move() == move) return "ok";  // a repeated request
  if (!source_.is_idle() || (!destination_.is_idle() && !destination_.is_confirmed())) return MoveBusy();
  REMORA_ASSIGN_OR_RETURN(const ShardIdentity to, division_.Find(words[3]));
  REMORA_RETURN_IF_ERROR(source_.Begin(move, *slots, to, *rate));
  return "ok";
}

absl::StatusOr<std::string> SlotMoves::TakeSlots(std::uint64_t move, const Words& words) {
  const std::optional<ClusterSlots> slots = SlotsIn(words[2]);
  if (!slots) return NoCommand();
  if (member_) {
    return absl::FailedPreconditionError(
        "move: the division of this shard is in etcd; name its servers, with --topology=cluster://HOST:PORT");
  }
  if (!destination_.is_idle() && destination_.move() == move) return "ok";  // a repeated request
  REMORA_ASSIGN_OR_RETURN(const ShardIdentity from, division_.Find(words[3]));
  if (!source_.is_idle()) return MoveBusy();
  if (!destination_.MayBeReplaced(from, store_.clock().Now())) {
    if (destination_.is_confirmed()) {
      return absl::StrCat("confirmed ", MoveText(destination_.move()), " ",
                          AbslView(destination_.from().name()));
    }
    return MoveBusy();
  }
  source_.ForgetNoMore();  // the slots may be some that it has given away
  REMORA_RETURN_IF_ERROR(destination_.Begin(move, *slots, from));
  return "ok";
}

absl::StatusOr<std::string> SlotMoves::DoOfShard(std::uint64_t move, const Words& words,
                                                 std::string_view bytes) {
  if (words[0] == "part" && words.size() == 3) {
    const std::optional<std::uint64_t> at = NumberIn(words[2]);
    if (!at) return NoCommand();
    if (destination_.is_idle() || destination_.move() != move) return NotHere();
    destination_.Hear(store_.clock().Now());
    REMORA_RETURN_IF_ERROR(destination_.Append(*at, bytes));
    return "ok";
  }
  SlotCopyHeader header;
  if (words[0] != "take" || words.size() != 4 || bytes.size() != sizeof(header)) return NoCommand();
  const std::optional<std::uint64_t> epoch = NumberIn(words[2]), order = NumberIn(words[3]);
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (!epoch || !order || header.magic != kSlotCopyMagic || header.move != move ||
      header.destination != division_.self() || !IsShardName(header.source.name())) {
    return NoCommand();
  }
  if (!source_.is_idle()) return MoveBusy();
  REMORA_ASSIGN_OR_RETURN(const ShardIdentity from, division_.Find(header.source.name()));
  if (!destination_.MayBeReplaced(from, store_.clock().Now())) return MoveBusy();
  source_.ForgetNoMore();  // the slots may be some that it has given away
  REMORA_RETURN_IF_ERROR(destination_.BeginInOrder(move, SlotsOfCopy(header), from, {*epoch, *order}));
  return "ok";
}

std::string SlotMoves::Why(std::uint64_t move) const {
  for (const FailedMove* const failed : {&source_.failed(), &destination_.failed()}) {
    if (failed->move == move) return failed->why;
  }
  return "unknown";
}

std::string SlotMoves::Failures() const {
  std::string lines;
  for (const FailedMove* const failed : {&source_.failed(), &destination_.failed()}) {
    if (failed->move == 0) continue;
    const auto ago = std::chrono::floor<std::chrono::seconds>(store_.clock().Now() - failed->at).count();
    absl::StrAppend(&lines, failed->what, ", ", ago, " s ago: ", failed->why, "\n");
  }
  return lines;
}

absl::StatusOr<std::string> SlotMoves::DoOfSource(std::string_view command) {
  if (command == "state") return source_.Shown();
  if (command == "close") {
    REMORA_RETURN_IF_ERROR(source_.Close());
    return "ok";
  }
  if (command == "give") {
    const absl::Status given = source_.Give();
    if (absl::IsAborted(given)) return "again";
    REMORA_RETURN_IF_ERROR(given);
    return "given";
  }
  if (command != "cancel") return NoCommand();
  source_.GiveUp("it was cancelled");
  if (source_.is_idle()) return "ok";
  return absl::UnavailableError(
      member_ ? "move: the division is being changed in etcd; wait until that has answered"
              : "move: the division was to change, and cannot be read; repair its file");
}

absl::StatusOr<std::string> SlotMoves::DoOfDestination(std::string_view command) {
  if (command == "state") return destination_.Shown();
  if (command == "confirm") {
    REMORA_RETURN_IF_ERROR(destination_.Confirm());
    return "ok";
  }
  if (command == "serve") {
    destination_.LookAtDivision();
    return destination_.is_idle() ? "own" : destination_.Shown();
  }
  if (command != "cancel") return NoCommand();
  REMORA_RETURN_IF_ERROR(destination_.Cancel());
  return "ok";
}

bool SlotMoves::Step() {
  if (source_.is_idle() && !source_.next_work() && destination_.is_idle()) return false;
  const TimePoint now = store_.clock().Now();
  bool worked = source_.Step(now);
  worked |= destination_.Step(now);
  ShowMetric();
  return worked;
}

std::optional<TimePoint> SlotMoves::next_work() const {
  const std::optional<TimePoint> source = source_.next_work(), destination = destination_.next_work();
  if (!source || !destination) return source ? source : destination;
  return std::min(*source, *destination);
}

}  // namespace remora
