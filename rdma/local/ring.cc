#include "rdma/local/ring.h"

#include <algorithm>
#include <cstring>

#include "rdma/shared_copy.h"
#include "store/base/check.h"

namespace remora::rdma {

RingResult RingWriter::Push(std::span<const std::byte> message) {
  REMORA_CHECK(message.size() <= kMaxMessageSize);
  const std::uint64_t needed = LocalSlotsOf(message.size());
  if (produced_ - consumed_ + needed > slots_) {
    // Acquire: the reader's copy out of a slot is over before we write it again.
    const std::uint64_t consumed = peer_->consumed.load(std::memory_order_acquire);
    if (produced_ - consumed > slots_) return RingResult::kPeerLies;
    consumed_ = consumed;
    if (produced_ - consumed_ + needed > slots_) return RingResult::kNotNow;
  }
  LocalSlot& first = own_->slots()[produced_ & (slots_ - 1)];
  const std::uint64_t head = LocalHead(produced_ + 1, message.size());
  for (std::uint64_t at = produced_; !message.empty(); ++at) {
    const std::size_t size = std::min(message.size(), kMaxShortMessage);
    std::memcpy(own_->slots()[at & (slots_ - 1)].data, message.data(), size);
    message = message.subspan(size);
  }
  produced_ += needed;
  // As a release it publishes the bytes and every WRITE before (A2, A3). An exchange for the sake of A4.
  first.head.exchange(head, std::memory_order_seq_cst);
  return RingResult::kDone;
}

std::uint64_t RingWriter::FreeSlots() const {
  const std::uint64_t used = produced_ - peer_->consumed.load(std::memory_order_acquire);
  return used > slots_ ? 0 : slots_ - used;
}

RingResult RingReader::Peek(std::uint32_t* length) const {
  const std::uint64_t head = Head();
  if (!IsHeadOf(head, consumed_ + 1)) return RingResult::kNotNow;
  *length = LengthOf(head);
  const bool is_possible = *length <= kMaxMessageSize && LocalSlotsOf(*length) <= slots_;
  return is_possible ? RingResult::kDone : RingResult::kPeerLies;
}

void RingReader::Take(std::byte* to, std::uint32_t length) {
  const std::uint64_t end = consumed_ + LocalSlotsOf(length);
  while (consumed_ < end) {
    const std::uint32_t size = std::min(length, static_cast<std::uint32_t>(kMaxShortMessage));
    CopyShared(to, peer_->slots()[consumed_++ & (slots_ - 1)].data, size);
    to += size;
    length -= size;
  }
  // Release: the writer that sees this may overwrite the slots.
  own_->consumed.store(consumed_, std::memory_order_release);
}

}  // namespace remora::rdma
