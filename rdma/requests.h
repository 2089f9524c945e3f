// Parts of connections that no device serves: checks of posted requests, and a queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "rdma/transport.h"

namespace remora::rdma {

// Checks of a request, for either end.
std::uint64_t TotalSize(std::span<const Sge> sges);
absl::Status BadRequest(std::span<const Sge> sges, const RemoteRegion& region, std::uint64_t offset);
absl::Status QueueIsFull();

/// A queue that never allocates after it was made.
template <typename T>
class FixedQueue {
 public:
  explicit FixedQueue(std::size_t capacity) : items_(capacity) {}
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == items_.size(); }
  const T& front() const { return items_[head_]; }
  T& front() { return items_[head_]; }
  void push(const T& item) {
    const std::size_t at = head_ + size_++;
    items_[at < items_.size() ? at : at - items_.size()] = item;
  }
  void pop() {
    head_ = head_ + 1 < items_.size() ? head_ + 1 : 0;
    --size_;
  }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace remora::rdma
