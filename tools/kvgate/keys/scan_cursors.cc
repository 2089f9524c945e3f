#include "tools/kvgate/keys/scan_cursors.h"

#include <utility>

namespace remora::kvgate {
namespace {

constexpr int kStepBits = 16;
constexpr int kScanBits = 36;

}  // namespace

std::optional<std::string> ScanCursors::Find(std::uint64_t cursor) {
  const MutexLock lock(mutex_);
  const auto scan = FindScan(cursor);
  if (scan == scans_.end()) return std::nullopt;
  const auto number = static_cast<std::uint16_t>(cursor);
  const Step& step = scan->steps[number % kSteps];
  if (number == 0 || step.number != number) return std::nullopt;
  scans_.splice(scans_.begin(), scans_, scan);
  return step.token;
}

std::uint64_t ScanCursors::Keep(std::uint64_t cursor, std::string token) {
  const MutexLock lock(mutex_);
  auto scan = cursor == 0 ? scans_.end() : FindScan(cursor);
  if (scan == scans_.end()) {
    std::uint64_t id = 0;
    while (id == 0 || by_id_.contains(id)) id = random_() >> (64 - kScanBits);
    scans_.push_front({.id = id});
    scan = scans_.begin();
    by_id_.emplace(id, scan);
  }
  if (++scan->last_step == 0) ++scan->last_step;
  Step& step = scan->steps[scan->last_step % kSteps];
  bytes_ += token.size();
  bytes_ -= step.token.size();
  step = {scan->last_step, std::move(token)};
  const std::uint64_t next = scan->id << kStepBits | scan->last_step;
  while (scans_.size() > kMaxScans || (bytes_ > kMaxBytes && scans_.size() > 1)) DropLast();
  return next;
}

void ScanCursors::End(std::uint64_t cursor) {
  const MutexLock lock(mutex_);
  const auto scan = FindScan(cursor);
  if (scan != scans_.end()) scans_.splice(scans_.end(), scans_, scan);
}

ScanCursors::Scans::iterator ScanCursors::FindScan(std::uint64_t cursor) {
  const auto found = by_id_.find(cursor >> kStepBits);
  return found == by_id_.end() ? scans_.end() : found->second;
}

void ScanCursors::DropLast() {
  for (const Step& step : scans_.back().steps) bytes_ -= step.token.size();
  by_id_.erase(scans_.back().id);
  scans_.pop_back();
}

}  // namespace remora::kvgate
