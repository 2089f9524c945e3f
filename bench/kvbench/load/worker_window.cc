// A thread that has several operations in flight at once.
#include <thread>
#include <utility>

#include "bench/kvbench/load/worker.h"

namespace remora::bench {

// One of those in flight. An operation that reads and then writes is one request after the other.
struct Worker::Place : Request {
  OperationKind kind = OperationKind::kRead;
  std::uint64_t number = 0;
  std::uint64_t record = 0;
  TimePoint started;
  // The request points to these.
  std::size_t key_place = 0;
  std::string value_text;
  std::uint64_t bytes_read = 0;
};

// In a closed loop, an operation begins when one before has ended, so that the latencies of each place add up
// to the thread's time. With a rate, it begins when it is due, or as soon as there is a place, and its
// latency runs from when it was due. The clock is read each time some have ended.
void Worker::RunWindow(TimePoint deadline) {
  std::vector<Place> places(workload_.depth);
  std::vector<Place*> free;
  free.reserve(places.size());
  for (Place& place : places) {
    place.key_place = free.size();
    free.push_back(&place);
  }
  std::vector<Request*> ended;
  std::vector<Request*> later;  // of an insert that cannot be acknowledged yet: it is looked at again

  std::uint64_t number = 0;
  for (;;) {
    bool goes_on = number < share_.operations && last_ < deadline && !IsStopped();
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
      WaitUntil(Due(number), clock_, stop_);
      last_ = clock_.Now();
      continue;
    }
    ended.swap(later);
    const std::size_t looked_at_again = ended.size();
    if (free.size() + ended.size() < places.size()) {
      session_.Advance(/*wait=*/ended.empty() && !is_early, &ended);
    }
    // Nothing of ours has ended: the thread that it waits for may need this CPU.
    if (ended.size() == looked_at_again) std::this_thread::yield();
    last_ = clock_.Now();
    const std::size_t free_before = free.size();
    for (Request* const request : ended) {
      Place& place = *static_cast<Place*>(request);
      if (IsOver(place)) {
        free.push_back(&place);
      } else if (place.kind == OperationKind::kInsert) {
        later.push_back(&place);
      }
    }
    EndAlike();
    Tell(free.size() - free_before);
    ended.clear();
  }
}

void Worker::BeginOne(Place& place, std::uint64_t number, TimePoint started) {
  const Step step = NextStep(number);
  place.kind = step.kind;
  place.number = number;
  place.record = RecordOf(step);
  place.started = started;
  place.key = place_keys_.Make(place.record, place.key_place);
  place.is_put = !ReadsFirst(place.kind);
  place.found = &place.value_text;
  place.bytes_read = 0;
  if (place.is_put) {
    values_.Make(place.record, first_write_number_ + number, &place.value_text);
    place.value = place.value_text;
  }
  session_.Begin(&place);
}

// Its request has ended. False: its operation has not: a write was begun behind the read; or, of an insert,
// this is to be asked again.
bool Worker::IsOver(Place& place) {
  const OperationKind kind = place.kind;
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
             !shared_.inserted().Acknowledge(place.record) && !IsStopped()) {
    return false;
  }
  if (outcome == Outcome::kRight) CountAlike(place);
  return true;
}

// With a MultiGet, most are alike, and counted at once.
void Worker::CountAlike(const Place& place) {
  if (place.kind != alike_.kind || place.started != alike_.started) {
    EndAlike();
    alike_.kind = place.kind;
    alike_.started = place.started;
  }
  ++alike_.operations;
  alike_.bytes += {place.bytes_read, place.is_put ? place.value.size() : 0};
}

void Worker::EndAlike() {
  if (alike_.operations > 0) CountTimed(alike_.kind, alike_.started, alike_.bytes, alike_.operations);
  alike_.operations = 0;
  alike_.bytes = {};
}

// Makes it the write that follows, if one does.
Worker::Outcome Worker::TakeRead(Place& place) {
  const OperationKind kind = place.kind;
  place.bytes_read = place.value_text.size();
  const Outcome outcome = CheckValue(kind, place.key, place.record, place.value_text);
  if (outcome != Outcome::kRight || kind == OperationKind::kRead) return outcome;
  const std::uint64_t write_number = first_write_number_ + place.number;
  if (!ReplacesField(kind)) {
    values_.Make(place.record, write_number, &place.value_text);
  } else if (!values_.ReplaceField(place.record, random_.NextBelow(workload_.fields.count), write_number,
                                   &place.value_text)) {
    return Wrong(kind, place.key, place.value_text.size(), kOtherFields);
  }
  place.value = place.value_text;
  place.is_put = true;
  return Outcome::kRight;
}

}  // namespace remora::bench
