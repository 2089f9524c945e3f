#include "bench/peers/redis_connection.h"

#include <poll.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

// A server that says nothing for so long has failed; hiredis would wait for ever.
constexpr int kPatienceS = 4;

absl::Status Silent() {
  return absl::UnavailableError(absl::StrCat("the server did not answer for ", kPatienceS,
                                             " s: it is stopped, or speaks another protocol"));
}

// REQUIRES: the last call of hiredis failed, and nothing has changed errno since.
absl::Status WhyBroken(const redisContext& context) {
  if (context.err == REDIS_ERR_IO && (errno == EAGAIN || errno == ETIMEDOUT)) return Silent();
  return absl::UnavailableError(context.errstr);
}

bool CanWait(int error) { return error == EAGAIN || error == EINTR; }

absl::Status SocketError(const char* call, int error) {
  return absl::UnavailableError(absl::StrCat(call, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Connect(
    const PeerAddress& address, std::shared_ptr<const rdma::TlsContext> tls) {
  constexpr timeval kTimeout{kPatienceS, 0};
  Context context(address.path.empty() ? redisConnectWithTimeout(address.host.c_str(), address.port, kTimeout)
                                       : redisConnectUnixWithTimeout(address.path.c_str(), kTimeout));
  if (context == nullptr) return absl::ResourceExhaustedError("connect: no memory for a connection");
  if (context->err != 0 || redisSetTimeout(context.get(), kTimeout) != REDIS_OK) {
    return WhyBroken(*context);
  }
  std::unique_ptr<RedisConnection> connection(new RedisConnection(std::move(context)));
  if (tls != nullptr) REMORA_RETURN_IF_ERROR(connection->StartTls(std::move(tls), address.host));
  connection->Append(std::array<std::string_view, 1>{"PING"});
  REMORA_ASSIGN_OR_RETURN(const RedisReply reply, connection->Call());
  if (reply->type == REDIS_REPLY_ERROR) return absl::InternalError(reply->str);
  return connection;
}

absl::Status RedisConnection::StartTls(std::shared_ptr<const rdma::TlsContext> tls, const std::string& host) {
  REMORA_ASSIGN_OR_RETURN(tls_, rdma::TlsStream::OfClient(std::move(tls), host));
  for (;;) {
    const rdma::TlsStream::Step step = tls_->Handshake(context_->fd);
    if (step == rdma::TlsStream::Step::kFailed) return absl::UnavailableError(tls_->error().message());
    if (step == rdma::TlsStream::Step::kDone) return absl::OkStatus();
    REMORA_RETURN_IF_ERROR(Await(tls_->has_output()));
  }
}

void RedisConnection::Append(std::span<const std::string_view> words) {
  begins_.clear();
  sizes_.clear();
  for (const std::string_view word : words) {
    begins_.push_back(word.data());
    sizes_.push_back(word.size());
  }
  const int count = static_cast<int>(words.size());
  if (tls_ == nullptr) {
    // Fails only where memory does; then the context says so when it is read.
    redisAppendCommandArgv(context_.get(), count, begins_.data(), sizes_.data());
    return;
  }
  char* command = nullptr;
  const auto size = redisFormatCommandArgv(&command, count, begins_.data(), sizes_.data());
  if (size > 0) unsent_.append(command, static_cast<std::size_t>(size));
  redisFreeCommand(command);
}

absl::Status RedisConnection::Flush() {
  if (tls_ != nullptr) return FlushTls();
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(context_.get(), &done) != REDIS_OK) return Broken();
  }
  return absl::OkStatus();
}

absl::Status RedisConnection::FlushTls() {
  for (std::size_t begin = 0; begin < unsent_.size() || tls_->has_output();) {
    if (tls_->has_output()) {
      if (const int error = tls_->Flush(context_->fd); error != 0) return SocketError("send", error);
      if (tls_->has_output()) REMORA_RETURN_IF_ERROR(Await(/*for_output=*/true));
      continue;
    }
    const iovec rest{.iov_base = unsent_.data() + begin, .iov_len = unsent_.size() - begin};
    const ssize_t sent = tls_->Send(context_->fd, std::span(&rest, 1));
    if (sent >= 0) {
      begin += static_cast<std::size_t>(sent);
    } else if (!CanWait(errno)) {
      return SocketError("send", errno);
    } else {
      REMORA_RETURN_IF_ERROR(Await(/*for_output=*/true));
    }
  }
  unsent_.clear();
  return absl::OkStatus();
}

absl::StatusOr<RedisReply> RedisConnection::Call() {
  REMORA_RETURN_IF_ERROR(Flush());
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(RedisReply reply, NextReply());
    if (reply != nullptr) return reply;
    REMORA_RETURN_IF_ERROR(Receive());
  }
}

absl::StatusOr<RedisReply> RedisConnection::NextReply() {
  void* next = nullptr;
  if (redisGetReplyFromReader(context_.get(), &next) != REDIS_OK) return Broken();
  return RedisReply(static_cast<redisReply*>(next));
}

absl::Status RedisConnection::Receive() {
  if (tls_ != nullptr) return ReceiveTls();
  if (redisBufferRead(context_.get()) != REDIS_OK) return Broken();
  return absl::OkStatus();
}

absl::Status RedisConnection::ReceiveTls() {
  std::array<char, 16 << 10> bytes;  // as many as hiredis receives at once
  const iovec whole{.iov_base = bytes.data(), .iov_len = bytes.size()};
  // The socket's own timeout ends one recv; a record may take several.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceS);
  for (;;) {
    const ssize_t got = tls_->Receive(context_->fd, std::span(&whole, 1), 0);
    if (got == 0) return absl::UnavailableError("redis: the server closed the connection");
    if (got > 0) {
      if (redisReaderFeed(context_->reader, bytes.data(), static_cast<std::size_t>(got)) == REDIS_OK) break;
      return absl::UnavailableError(context_->reader->errstr);
    }
    if (errno == EPROTO) return absl::UnavailableError(tls_->error().message());
    if (!CanWait(errno)) return SocketError("recv", errno);
    if (std::chrono::steady_clock::now() >= deadline) return Silent();
  }
  return absl::OkStatus();
}

bool RedisConnection::IsReadable() const {
  if (tls_ != nullptr && tls_->has_input()) return true;
  pollfd entry{context_->fd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

absl::Status RedisConnection::Await(bool for_output) const {
  pollfd entry{context_->fd, static_cast<short>(for_output ? POLLOUT : POLLIN), 0};
  const int ready = poll(&entry, 1, kPatienceS * 1000);
  if (ready < 0 && errno != EINTR) return SocketError("poll", errno);
  return ready == 0 ? Silent() : absl::OkStatus();
}

absl::Status RedisConnection::Broken() const { return WhyBroken(*context_); }

}  // namespace remora::bench
