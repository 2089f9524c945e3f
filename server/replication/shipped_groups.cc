#include "server/replication/shipped_groups.h"

#include <utility>

#include "store/base/check.h"

namespace remora {

void ShippedGroups::Take(std::uint64_t number, std::string_view bytes) {
  auto group = std::make_shared<const std::string>(bytes);
  {
    const MutexLock lock(mutex_);
    // The numbers of groups have no gap (G2 of store/durable/group_sink.h).
    REMORA_CHECK(number == first_ + groups_.size());
    groups_.push_back(std::move(group));
  }
  bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
  on_group_();
}

ShippedGroups::Group ShippedGroups::Find(std::uint64_t number) const {
  const MutexLock lock(mutex_);
  if (number < first_ || number - first_ >= groups_.size()) return nullptr;
  return groups_[number - first_];
}

void ShippedGroups::Release(std::uint64_t number) {
  const MutexLock lock(mutex_);
  while (!groups_.empty() && first_ <= number) {
    bytes_.fetch_sub(groups_.front()->size(), std::memory_order_relaxed);
    groups_.pop_front();
    ++first_;
  }
}

std::uint64_t ShippedGroups::first() const {
  const MutexLock lock(mutex_);
  return first_;
}

std::uint64_t ShippedGroups::last() const {
  const MutexLock lock(mutex_);
  return first_ + groups_.size() - 1;
}

}  // namespace remora
