#include "rdma/local_ring.h"

#include <cstring>

#include "rdma/local_copy.h"
#include "store/base/check.h"

namespace remora::rdma {

RingResult RingWriter::Push(std::span<const std::byte> message) {
  REMORA_CHECK(message.size() <= kMaxMessageSize);
  if (produced_ - consumed_ >= slots_) {
    // Acquire: the reader's copy out of a slot is over before we write it again.
    const std::uint64_t consumed = peer_->consumed.load(std::memory_order_acquire);
    if (produced_ - consumed > slots_) return RingResult::kPeerLies;
    consumed_ = consumed;
    if (produced_ - consumed_ == slots_) return RingResult::kNotNow;
  }
  LocalSlot& slot = own_->slots()[produced_ & (slots_ - 1)];
  if (!message.empty()) std::memcpy(slot.data, message.data(), message.size());
  slot.length.store(static_cast<std::uint32_t>(message.size()), std::memory_order_relaxed);
  // As a release it publishes the slot and every WRITE before (A2, A3); seq_cst for the sake of A4.
  own_->produced.store(++produced_, std::memory_order_seq_cst);
  return RingResult::kDone;
}

RingResult RingReader::Peek(std::uint32_t* length) const {
  // As in HasMessage.
  const std::uint64_t produced = peer_->produced.load(std::memory_order_seq_cst);
  if (produced == consumed_) return RingResult::kNotNow;
  if (produced - consumed_ > slots_) return RingResult::kPeerLies;
  *length = peer_->slots()[consumed_ & (slots_ - 1)].length.load(std::memory_order_relaxed);
  return *length <= kMaxMessageSize ? RingResult::kDone : RingResult::kPeerLies;
}

void RingReader::Take(std::byte* to, std::uint32_t length) {
  CopyShared(to, peer_->slots()[consumed_ & (slots_ - 1)].data, length);
  // Release: the writer that sees this may overwrite the slot.
  own_->consumed.store(++consumed_, std::memory_order_release);
}

}  // namespace remora::rdma
