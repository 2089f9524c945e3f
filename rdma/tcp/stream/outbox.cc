#include "rdma/tcp/stream/outbox.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rdma/shared_copy.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/tsan.h"

namespace remora::rdma {
namespace {

// Most entries of one sendmsg.
constexpr std::size_t kMaxEntries = 128;
// Pieces up to this size are copied behind each other before a sendmsg, up to kCopies bytes in all. The
// kernel takes about 40 ns for each entry, more than such a copy.
constexpr std::size_t kMaxCopied = 512;
constexpr std::size_t kCopies = std::size_t{8} << 10;

/// Pieces of memory for one sendmsg, in order. It copies the small ones into one entry.
class Gathered {
 public:
  /// `copies`: with TLS each piece is copied anyway, so none is copied here.
  explicit Gathered(bool copies) : copies_(copies) {}

  bool has_space() const { return count_ + 1 + kMaxSges <= entries_.size(); }
  void Add(std::byte* data, std::size_t size) {
    total_ += size;
    if (!copies_ || size > kMaxCopied || size > space_.size() - copied_) {
      entries_[count_++] = {data, size};
      return;
    }
    std::byte* const to = space_.data() + copied_;
    // By O3 of transport.h, the server may write the bytes meanwhile.
    CopyShared(to, data, size);
    copied_ += size;
    const bool is_behind_last = count_ > 0 && End(entries_[count_ - 1]) == to;
    if (is_behind_last) {
      entries_[count_ - 1].iov_len += size;
    } else {
      entries_[count_++] = {to, size};
    }
  }

  std::span<iovec> entries() { return std::span(entries_).first(count_); }
  std::size_t total() const { return total_; }

 private:
  static const std::byte* End(const iovec& entry) {
    return static_cast<const std::byte*>(entry.iov_base) + entry.iov_len;
  }

  const bool copies_;
  std::array<iovec, kMaxEntries> entries_;
  std::size_t count_ = 0;
  std::size_t total_ = 0;  // bytes
  std::array<std::byte, kCopies> space_;
  std::size_t copied_ = 0;
};

ssize_t SendNow(int socket, const msghdr& message) {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#ifdef REMORA_TSAN
  // By O3 of transport.h, the server may write the bytes that a client READs, and the client verifies them.
  // ThreadSanitizer intercepts the library's sendmsg, and would report a race.
  return syscall(SYS_sendmsg, socket, &message, kFlags);
#else
  return sendmsg(socket, &message, kFlags);
#endif
}

}  // namespace

void TcpOutbox::Add(const FrameHeader& header, std::span<const Sge> payload) {
  REMORA_CHECK(payload.size() <= kMaxSges);
  Frame& frame = frames_.emplace_back();
  frame.header = header;
  frame.size = sizeof(header);
  for (const Sge& sge : payload) {
    if (sge.size == 0) continue;
    frame.payload[frame.payload_count++] = sge;
    frame.size += sge.size;
  }
  ++added_;
}

int TcpOutbox::Flush(int socket, TlsStream* tls) {
  while (!empty()) {
    Gathered gathered(tls == nullptr);
    std::size_t skip = sent_;  // bytes of the first frame
    for (std::size_t i = first_; i < frames_.size() && gathered.has_space(); ++i) {
      Frame& frame = frames_[i];
      const auto add = [&](void* data, std::size_t size) {
        const std::size_t skipped = std::min(skip, size);
        skip -= skipped;
        if (skipped < size) gathered.Add(static_cast<std::byte*>(data) + skipped, size - skipped);
      };
      add(&frame.header, sizeof(frame.header));
      for (const Sge& sge : std::span(frame.payload).first(frame.payload_count)) add(sge.data, sge.size);
    }
    msghdr message{};
    message.msg_iov = gathered.entries().data();
    message.msg_iovlen = gathered.entries().size();
    const ssize_t sent = tls == nullptr ? SendNow(socket, message) : tls->Send(socket, gathered.entries());
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno;
    }
    Took(static_cast<std::size_t>(sent));
    const bool is_full =
        tls == nullptr ? static_cast<std::size_t>(sent) < gathered.total() : tls->has_output();
    if (is_full) return 0;
  }
  return tls == nullptr ? 0 : tls->Flush(socket);
}

void TcpOutbox::Took(std::size_t bytes) {
  bytes_sent_ += bytes;
  sent_ += bytes;
  while (first_ < frames_.size() && sent_ >= frames_[first_].size) {
    sent_ -= frames_[first_].size;
    ++first_;
  }
  if (first_ == frames_.size()) {
    frames_.clear();
    first_ = 0;
  } else if (first_ > 64 && first_ > frames_.size() / 2) {
    frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

void TcpOutbox::Clear() {
  frames_.clear();
  first_ = 0;
  sent_ = 0;
}

bool TcpOutbox::RefersTo(std::span<const std::byte> bytes) const {
  return std::any_of(
      frames_.begin() + static_cast<std::ptrdiff_t>(first_), frames_.end(), [&](const Frame& frame) {
        return std::ranges::any_of(std::span(frame.payload).first(frame.payload_count), [&](const Sge& sge) {
          return sge.data < bytes.data() + bytes.size() && sge.data + sge.size > bytes.data();
        });
      });
}

void SendBytes(int socket, TlsStream* tls, std::span<const std::byte> bytes) {
  if (tls == nullptr) {
    static_cast<void>(send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    return;
  }
  const iovec entry = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  static_cast<void>(tls->Send(socket, std::span(&entry, 1)));
}

void SendEnd(int socket, TlsStream* tls, const absl::Status& why) {
  const std::size_t size = std::min<std::size_t>(why.message().size(), kTcpMaxReason);
  FrameHeader header{.kind = FrameKind::kEnd};
  header.size = static_cast<std::uint32_t>(size);
  header.key = static_cast<std::uint32_t>(why.raw_code());
  std::array<std::byte, sizeof(header) + kTcpMaxReason> bytes;
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), why.message().data(), size);
  // The connection ends here even if the END cannot be sent.
  SendBytes(socket, tls, std::span(bytes).first(sizeof(header) + size));
}

absl::Status StatusOfEnd(std::uint32_t code, std::string_view text, std::string_view who) {
  const std::string message =
      absl::StrCat(AbslView(who), " ended the connection: ", absl::Utf8SafeCHexEscape(AbslView(text)));
  // The peer may send any code. One that it has no reason to send counts as a fault of the peer.
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kPermissionDenied:
      return absl::PermissionDeniedError(message);
    case absl::StatusCode::kUnavailable:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace remora::rdma
