#include "tools/kvgate/network/slot_owners.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/cluster/slots.h"
#include "client/session/retry_pause.h"
#include "store/base/check.h"
#include "store/base/moved.h"

namespace remora::kvgate {
namespace {

constexpr std::chrono::seconds kSilencePause{1};

/// Returns the number of all slots.
std::size_t SlotCount() { return EvenSlots(0, 1).last + std::size_t{1}; }

}  // namespace

SlotOwners::SlotOwners(TopologyReader& reader, std::chrono::milliseconds timeout, Inbox& inbox,
                       const Clock& clock)
    : source_(reader),
      topology_(reader.latest()),
      is_one_(topology_.shards().size() == 1),
      follows_(!is_one_ && !topology_.path().empty()),
      timeout_(timeout),
      inbox_(inbox),
      clock_(clock),
      in_flight_(follows_ ? SlotCount() : 0) {}

SlotOwners::~SlotOwners() {
  for (const auto& [slot, waits] : waits_) REMORA_CHECK(waits.operations.empty());
}

SlotOwners::Operation SlotOwners::Make(std::string_view key) {
  if (is_one_) return {};
  return {.slot = SlotOfKey(key), .number = ++made_};
}

void SlotOwners::Begin(const Operation& operation) {
  if (follows_) ++in_flight_[operation.slot];
}

void SlotOwners::End(const Operation& operation) {
  if (follows_) --in_flight_[operation.slot];
}

bool SlotOwners::TriesAgain(const absl::Status& status, Operation* operation) {
  if (!follows_ || !IsMoved(status) || is_stopping_) return false;
  const TimePoint now = clock_.Now();
  TimePoint due = now;
  if (operation->moves++ == 0) {
    operation->deadline = now + timeout_;
  } else {
    due += MovedPause(operation->moves);
    if (due >= operation->deadline) return false;  // M3
  }
  // Others of the slot may wait already, for the answer to an operation behind this one came first.
  Waits& waits = waits_[operation->slot];
  if (waits.operations.empty()) waits.due = due;
  return true;
}

// --- Waits ------------------------------------------------------------------------------------------------

bool SlotOwners::MustWait(const Operation& operation) const {
  return !waits_.empty() && waits_.contains(operation.slot);
}

void SlotOwners::Wait(Operation& operation, std::coroutine_handle<> waiting) {
  operation.waiting = waiting;
  waits_[operation.slot].operations.emplace(operation.number, &operation);
}

bool SlotOwners::Poll() {
  if (waits_.empty()) [[likely]]
    return false;
  const TimePoint now = clock_.Now();
  bool wants_file = false;
  for (auto& [slot, waits] : waits_) {
    if (waits.what == Waits::For::kPause && waits.due <= now) waits.what = Waits::For::kFile;
    wants_file |= waits.what == Waits::For::kFile;
  }
  if (wants_file && !is_reading_) BeginRead();
  std::vector<std::uint32_t> ready;
  for (const auto& [slot, waits] : waits_) {
    if (waits.what == Waits::For::kTurn && in_flight_[slot] == 0) ready.push_back(slot);
  }
  for (const std::uint32_t slot : ready) Release(slot, now);
  return !ready.empty();
}

std::optional<TimePoint> SlotOwners::next_deadline() const {
  std::optional<TimePoint> first;
  for (const auto& [slot, waits] : waits_) {
    if (waits.what != Waits::For::kPause || (first && *first <= waits.due)) continue;
    first = waits.due;
  }
  return first;
}

void SlotOwners::Release(std::uint32_t slot, TimePoint now) {
  Waits& waits = waits_[slot];
  // An operation that a resumed coroutine makes comes behind the others.
  while (!waits.operations.empty()) {
    Operation& operation = *waits.operations.begin()->second;
    waits.operations.erase(waits.operations.begin());
    const bool is_over = waits.ends || now >= operation.deadline;  // M3
    operation.ends = is_stopping_ || (operation.moves > 0 && is_over);
    operation.waiting.resume();
  }
  waits_.erase(slot);
}

void SlotOwners::Stop() {
  is_stopping_ = true;
  reader_.reset();
  while (!waits_.empty()) Release(waits_.begin()->first, clock_.Now());
}

// --- The topology ----------------------------------------------------------------------------------------

void SlotOwners::BeginRead() {
  for (auto& [slot, waits] : waits_) {
    if (waits.what == Waits::For::kFile) waits.what = Waits::For::kRead;
  }
  if (reader_ == nullptr) {
    auto started = HelperThread::Start();
    if (!started.ok()) return Take(started.status());
    reader_ = *std::move(started);
  }
  is_reading_ = true;
  reader_->Post([this] { inbox_.Post([this, fresh = source_.Read()] { Take(fresh); }); });
}

void SlotOwners::Take(const absl::StatusOr<Topology>& fresh) {
  is_reading_ = false;
  const bool is_other = absl::IsFailedPrecondition(fresh.status());  // T3 of the reader
  for (auto& [slot, waits] : waits_) {
    if (waits.what != Waits::For::kRead) continue;
    waits.what = Waits::For::kTurn;
    waits.ends = is_other;
  }
  // If it cannot be read, perhaps a file is being replaced, or a server is.
  if (fresh.ok()) Adopt(*fresh);
}

void SlotOwners::Adopt(const Topology& fresh) {
  for (std::uint32_t slot = 0; slot < in_flight_.size(); ++slot) {
    if (in_flight_[slot] == 0 || fresh.ShardOfSlot(slot) == topology_.ShardOfSlot(slot)) continue;
    if (const auto [at, is_new] = waits_.try_emplace(slot); is_new) at->second.what = Waits::For::kTurn;
  }
  topology_ = fresh;
  ++adopted_;
}

void SlotOwners::NoteSilence() {
  const TimePoint now = clock_.Now();
  if (!source_.is_of_servers() || is_stopping_ || is_reading_ || now < next_question_) return;
  next_question_ = now + kSilencePause;
  BeginRead();
}

}  // namespace remora::kvgate
