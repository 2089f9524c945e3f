// A region of the peer that this process maps. A READ of it is a copy, done at once and without a
// completion, or an access to the bytes in place. All inline: one GET is two of these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma/local/liveness.h"
#include "rdma/local/wire.h"
#include "rdma/shared_copy.h"

namespace remora::rdma {

/// A region of the server, mapped into this process to be read.
///
/// Thread safety: as the connection that it is of.
class MappedRegion {
 public:
  /// Makes a region of which nothing can be read: that of a connection that has ended.
  MappedRegion() = default;
  /// Covers `bytes` for as long as the listener's `page` and the side of `peer` say that they are
  /// valid.
  MappedRegion(std::span<const std::byte> bytes, const LocalListenerPage& page, const LocalSide& peer)
      : bytes_(bytes.data()), size_(bytes.size()), page_(&page), peer_(&peer), reads_left_(kReadsPerPoll) {}

  /// Copies to.size() bytes from `offset` on, and checks that the server is alive. If it returns true, `to`
  /// is what a READ posted now would have read. If false, the caller uses Connection::PostReadv instead,
  /// whose completion has the error, if there is one.
  bool Read(std::span<std::byte> to, std::uint64_t offset) {
    const std::byte* const from = At(offset, to.size());
    if (from == nullptr) return false;
    CopyShared(to.data(), from, to.size());
    return ServerIsAlive();
  }

  /// Returns `size` bytes in place, which the server may be writing; null if they are not inside. A
  /// result from them is valid once ServerIsAlive has returned true.
  const std::byte* At(std::uint64_t offset, std::size_t size) const {
    return offset < size_ && size <= size_ - offset ? bytes_ + offset : nullptr;
  }
  /// Returns whether the server was alive after all earlier accesses. If false, none of them counts, and the
  /// caller uses Connection::PostReadv instead.
  [[gnu::always_inline]] bool ServerIsAlive() {
    if (reads_left_ == 0) return false;
    --reads_left_;
    AcquireFence();  // A1 of wire.h: the bytes first, then whether the server that they are of still
                     // lives
    return IsAlive(*page_) && peer_->closed.load(std::memory_order_acquire) == 0;
  }

  /// Returns a word that the server changes as a whole. Loads behind it are later. 0: it is not
  /// inside.
  ///
  /// REQUIRES: it is aligned.
  std::uint64_t Word(std::uint64_t offset) const { return offset < size_ ? WordInside(offset) : 0; }
  /// Returns a word, as Word does.
  ///
  /// REQUIRES: it is aligned, and inside.
  std::uint64_t WordInside(std::uint64_t offset) const {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(bytes_ + offset), __ATOMIC_ACQUIRE);
  }

  /// Prefetches the bytes of a later READ into the CPU's caches.
  void Prefetch(std::uint64_t offset, std::size_t size) const {
    if (offset > size_ || size > size_ - offset) return;  // a READ of it will fail
    for (std::size_t at = 0; at < size; at += kCacheLine) __builtin_prefetch(bytes_ + offset + at);
    __asm__ volatile("");  // gcc takes a function that does nothing else for one that need not be called
  }

  // For its connection.
  /// READs until wants_poll. A user that only READs would never check the socket (A1); the Poll
  /// behind a PostReadv does so at this rate.
  static constexpr std::uint32_t kReadsPerPoll = 4096;
  bool wants_poll() const { return page_ != nullptr && reads_left_ == 0; }
  void Polled() { reads_left_ = page_ != nullptr ? kReadsPerPoll : 0; }

 private:
  const std::byte* bytes_ = nullptr;
  std::uint64_t size_ = 0;
  const LocalListenerPage* page_ = nullptr;
  const LocalSide* peer_ = nullptr;
  std::uint32_t reads_left_ = 0;  // before the next Poll; none if nothing can be read
};

}  // namespace remora::rdma
