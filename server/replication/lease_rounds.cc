#include "server/replication/lease_rounds.h"

namespace remora {

bool LeaseRounds::Begin(TimePoint now) {
  if (is_in_progress() || (now < next_ && awaited_ <= begun_)) return false;
  ++begun_;
  next_ = now + pause_;
  return true;
}

bool LeaseRounds::End(std::uint64_t answered) {
  if (!is_in_progress() || answered < begun_) return false;
  done_ = begun_;
  return true;
}

std::optional<TimePoint> LeaseRounds::next() const {
  if (is_in_progress()) return std::nullopt;
  return awaited_ > begun_ ? TimePoint{} : next_;
}

LeaseLine LeaseRounds::line() const {
  return {.epoch = epoch_,
          .begun = begun_,
          .done = done_,
          .lease_ms = static_cast<std::uint64_t>(lease_.count()),
          .reserved = {},
          .checksum = 0};
}

}  // namespace remora
