#include "rdma/tcp/stream/inbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/base/check.h"

namespace remora::rdma {

void TcpInbox::Load(std::span<std::byte> buffer) {
  REMORA_CHECK(buffer.size() == kBufferSize);
  buffer_ = buffer;
  begin_ = 0;
  end_ = kept_.size();
  if (!kept_.empty()) std::memcpy(buffer_.data(), kept_.data(), kept_.size());
  kept_.clear();
}

void TcpInbox::Store() {
  kept_.assign(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
               buffer_.begin() + static_cast<std::ptrdiff_t>(end_));
  buffer_ = {};
  begin_ = end_ = 0;
}

TcpInbox::Filled TcpInbox::Fill(int socket, TlsStream* tls, Waits waits) {
  if (begin_ > 0) {  // the user has taken all that it could, so at most a part of a header is left
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::array<iovec, kMaxSges + 1> entries;
  std::size_t count = 0;
  std::size_t space = 0;
  if (end_ == 0) {
    for (std::size_t i = place_; expected_ > 0 && i < place_count_; ++i) {
      entries[count++] = {places_[i].data, places_[i].size};
      space += places_[i].size;
    }
  }
  const std::size_t payload = space;
  if (end_ == buffer_.size()) return Filled::kSome;  // the user does not take the bytes in the buffer
  entries[count++] = {buffer_.data() + end_, buffer_.size() - end_};
  space += buffer_.size() - end_;
  msghdr message{};
  message.msg_iov = entries.data();
  message.msg_iovlen = count;
  const int flags = waits == Waits::kYes ? 0 : MSG_DONTWAIT;
  ssize_t got = 0;
  do {
    got = tls == nullptr ? recvmsg(socket, &message, flags)
                         : tls->Receive(socket, std::span(entries).first(count), flags);
    if (got < 0 && errno == EINTR && waits == Waits::kYes) return Filled::kNothing;
  } while (got < 0 && errno == EINTR);
  if (got == 0) return Filled::kClosed;
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Filled::kNothing : Filled::kFailed;
  auto direct = std::min(static_cast<std::size_t>(got), payload);
  end_ += static_cast<std::size_t>(got) - direct;
  expected_ -= direct;
  while (direct > 0) {
    Sge& place = places_[place_];
    const std::size_t size = std::min<std::size_t>(direct, place.size);
    place.data += size;
    place.size -= static_cast<std::uint32_t>(size);
    direct -= size;
    if (place.size == 0) ++place_;
  }
  const bool is_all = static_cast<std::size_t>(got) < space && (tls == nullptr || !tls->has_input());
  return is_all ? Filled::kAll : Filled::kSome;
}

const FrameHeader* TcpInbox::Next() {
  if (end_ - begin_ < sizeof(header_)) return nullptr;
  std::memcpy(&header_, buffer_.data() + begin_, sizeof(header_));
  return &header_;
}

void TcpInbox::Expect(std::span<const Sge> to) {
  REMORA_CHECK(to.size() <= kMaxSges && end_ - begin_ >= sizeof(header_));
  begin_ += sizeof(header_);
  place_ = place_count_ = 0;
  expected_ = 0;
  for (const Sge& sge : to) {
    if (sge.size == 0) continue;
    places_[place_count_++] = sge;
    expected_ += sge.size;
  }
}

bool TcpInbox::TakePayload() {
  while (expected_ > 0 && begin_ < end_) {
    Sge& place = places_[place_];
    const std::size_t size = std::min<std::size_t>(end_ - begin_, place.size);
    std::memcpy(place.data, buffer_.data() + begin_, size);
    begin_ += size;
    expected_ -= size;
    place.data += size;
    place.size -= static_cast<std::uint32_t>(size);
    if (place.size == 0) ++place_;
  }
  return expected_ == 0;
}

}  // namespace remora::rdma
