// The groups that the primary has not yet brought to all of its followers, in memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"
#include "store/durable/group_sink.h"

namespace remora {

/// Takes the groups of the store, and keeps each until Release.
///
/// Thread safety: any thread may call all members.
class ShippedGroups final : public GroupSink {
 public:
  using Group = std::shared_ptr<const std::string>;

  /// `first`: the number of the first group that it will get. `on_group` is called behind each Take, under
  /// the store's lock: it must not block.
  ShippedGroups(std::uint64_t first, std::function<void()> on_group)
      : on_group_(std::move(on_group)), first_(first) {}

  void Take(std::uint64_t number, std::string_view bytes) override;
  /// Returns a group. Null: it has not come yet, or was released.
  Group Find(std::uint64_t number) const;
  /// Drops the groups up to this number.
  void Release(std::uint64_t number);

  /// Returns the number of the first group that it keeps, or will get.
  std::uint64_t first() const;
  /// Returns the number of the last group that came; 0 if there was none, and the first would have number 1.
  std::uint64_t last() const;
  /// Returns the bytes of the groups that it keeps.
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  const std::function<void()> on_group_;
  mutable Mutex mutex_;
  std::uint64_t first_ ABSL_GUARDED_BY(mutex_);
  std::deque<Group> groups_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::size_t> bytes_ = 0;
};

}  // namespace remora
