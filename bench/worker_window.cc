// A thread that has several operations under way at once.
#include <thread>
#include <utility>

#include "bench/worker.h"

namespace remora::bench {

// One of those under way. An operation that reads and then writes is one request after the other.
struct Worker::Place : Request {
  explicit Place(const KeyOptions& keys) : key_text(keys) {}

  Step step;
  std::uint64_t number = 0;
  std::uint64_t record = 0;
  TimePoint started;
  // What the request points to.
  KeyMaker key_text;
  std::string value_text;
};

// In a closed loop, an operation begins when one before has ended, so that the latencies of each place add up
// to the thread's time; paced, when it is due, or as soon as there is a place, and its latency runs from when
// it was due. The clock is read each time some have ended.
void Worker::RunWindow(TimePoint deadline) {
  std::vector<Place> places(workload_.depth, Place(workload_.keys));
  std::vector<Place*> free;
  free.reserve(places.size());
  for (Place& place : places) free.push_back(&place);
  std::vector<Request*> ended;
  std::vector<Request*> later;  // of an insert that cannot be acknowledged yet: it is looked at again

  std::uint64_t number = 0;
  for (;;) {
    bool goes_on =
        number < share_.operations && last_ < deadline && !shared_.stop().load(std::memory_order_relaxed);
    bool is_early = false;
    while (goes_on && !free.empty() && !is_early) {
      const TimePoint started = IsPaced() ? Due(number) : last_;
      is_early = started > last_;
      if (is_early) break;
      BeginOne(*free.back(), number++, started);
      free.pop_back();
      goes_on = number < share_.operations;
    }
    if (free.size() == places.size()) {
      if (!goes_on) return;
      WaitUntil(Due(number), clock_);
      last_ = clock_.Now();
      continue;
    }
    ended.swap(later);
    const std::size_t looked_at_again = ended.size();
    if (free.size() + ended.size() < places.size()) {
      session_.Advance(/*wait=*/ended.empty() && !is_early, &ended);
    }
    // Nothing of ours has ended: the processor may be somebody's whom that waits for.
    if (ended.size() == looked_at_again) std::this_thread::yield();
    last_ = clock_.Now();
    for (Request* const request : ended) {
      Place& place = *static_cast<Place*>(request);
      if (IsOver(place)) {
        free.push_back(&place);
      } else if (place.step.kind == OperationKind::kInsert) {
        later.push_back(&place);
      }
    }
    ended.clear();
  }
}

void Worker::BeginOne(Place& place, std::uint64_t number, TimePoint started) {
  place.step = NextStep(number);
  place.number = number;
  place.record = RecordOf(place.step);
  place.started = started;
  place.key = place.key_text.Make(place.record);
  place.is_put = !ReadsFirst(place.step);
  place.found = &place.value_text;
  if (place.is_put) {
    place.value_text = values_.Make(place.record, first_write_number_ + number);
    place.value = place.value_text;
  }
  session_.Begin(&place);
}

// Its request has ended. False: its operation has not: a write was begun behind the read; or, of an insert,
// this is to be asked again.
bool Worker::IsOver(Place& place) {
  const OperationKind kind = place.step.kind;
  Outcome outcome = Outcome::kRight;
  if (!place.status.ok()) {
    outcome = TakeError(kind, place.key, place.status);
  } else if (!place.is_put) {
    outcome = TakeRead(place);
    if (place.is_put) {
      session_.Begin(&place);
      return false;
    }
  } else if (kind == OperationKind::kInsert && share_.phase != PhaseKind::kLoad &&
             !shared_.inserted().Acknowledge(place.record) &&
             !shared_.stop().load(std::memory_order_relaxed)) {
    return false;
  }
  Count(kind, outcome, /*timed=*/true, place.started);
  return true;
}

// Makes it the write that follows, if one does.
Worker::Outcome Worker::TakeRead(Place& place) {
  const OperationKind kind = place.step.kind;
  const Outcome outcome = CheckValue(kind, place.key, place.record, place.value_text);
  if (outcome != Outcome::kRight || kind == OperationKind::kRead) return outcome;
  const std::uint64_t write_number = first_write_number_ + place.number;
  if (!ReplacesField(place.step)) {
    place.value_text = values_.Make(place.record, write_number);
  } else if (!values_.ReplaceField(place.record, random_.NextBelow(workload_.fields.count), write_number,
                                   &place.value_text)) {
    return Wrong(kind, place.key, place.value_text.size(), kOtherFields);
  }
  place.value = place.value_text;
  place.is_put = true;
  return Outcome::kRight;
}

}  // namespace remora::bench
