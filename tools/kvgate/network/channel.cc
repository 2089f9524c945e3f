#include "tools/kvgate/network/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace remora::kvgate {

Channel::~Channel() { ::close(fd_); }

bool Channel::IsReady() {
  if (tls_ == nullptr || tls_->is_established()) return true;
  const rdma::TlsStream::Step step = tls_->Handshake(fd_);
  if (step == rdma::TlsStream::Step::kDone) return true;
  errno = step == rdma::TlsStream::Step::kWaits ? EAGAIN : EPROTO;
  return false;
}

ssize_t Channel::Receive(std::span<char> to) {
  if (!IsReady()) return -1;
  if (tls_ == nullptr) return ::recv(fd_, to.data(), to.size(), 0);
  const iovec part{.iov_base = to.data(), .iov_len = to.size()};
  return tls_->Receive(fd_, std::span(&part, 1), 0);
}

ssize_t Channel::Send(std::string_view bytes) {
  if (!IsReady()) return -1;
  if (tls_ == nullptr) return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  const iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  return tls_->Send(fd_, std::span(&part, 1));
}

bool Channel::Flush() { return !has_output() || tls_->Flush(fd_) == 0; }

}  // namespace remora::kvgate
