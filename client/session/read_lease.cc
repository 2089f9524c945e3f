#include "client/session/read_lease.h"

namespace remora {

bool ReadLease::IsWhole(const LeaseLine& line, std::uint64_t incarnation) {
  if (line.checksum != LeaseChecksum(line, incarnation)) return false;
  constexpr auto kLeast = static_cast<std::uint64_t>(kMinLeaseTime.count());
  constexpr auto kMost = static_cast<std::uint64_t>(kMaxLeaseTime.count());
  return line.done <= line.begun && line.begun - line.done <= 1 && line.lease_ms >= kLeast &&
         line.lease_ms <= kMost;
}

Duration ReadLease::span() const { return Duration(lease_time()) * 3 / 4; }

bool ReadLease::IsLookOfUse(TimePoint now) const { return now < look_.before + span(); }

bool ReadLease::Begin(const LeaseLine& line, TimePoint before) {
  *this = {};
  if (line.epoch == 0) return false;
  is_on_ = true;
  first_ = line;
  done_ = line.done;
  look_ = {before, line.begun};
  return true;
}

bool ReadLease::Take(const LeaseLine& line, TimePoint before) {
  if (line.epoch != first_.epoch || line.lease_ms != first_.lease_ms || line.begun < look_.begun ||
      line.done < done_) {
    return false;
  }
  done_ = line.done;
  if (line.done > look_.begun) {
    Extend(look_.before, before);
    look_ = {before, line.begun};
    return true;
  }
  look_at_ = std::min(before + Duration(lease_time()) / 16, end_ - Clock::kCoarseness);
  // A later line may still prove the earlier look. It replaces one that is too old for that.
  if (!IsLookOfUse(before)) look_ = {before, line.begun};
  return true;
}

void ReadLease::Extend(TimePoint from, TimePoint now) {
  end_ = std::max(end_, from + span());
  look_at_ = std::min(now + Duration(lease_time()) / 4, end_ - Clock::kCoarseness);
}

}  // namespace remora
