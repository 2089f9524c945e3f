// A relay in front of an etcd, which loses transactions, or their answers, or hands them on late.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "store/base/mutex.h"
#include "tests/support/loopback.h"

namespace remora {

/// Outcome of a transaction.
enum class Relayed : std::uint8_t {
  kDone = 1,    // as if there were no relay
  kLost,        // etcd does not get it, and nobody answers
  kAnswerLost,  // etcd does it, and nobody answers
  kLate,        // nobody answers, and Deliver hands it on
};

/// Relays requests of HTTP, one in each connection. All but transactions go through.
///
/// Thread safety: any thread.
class EtcdRelay {
 public:
  /// `decide` gets the number of each transaction, from 1 on. It is called in the relay's thread.
  EtcdRelay(const std::string& etcd, std::function<Relayed(int number)> decide)
      : port_(static_cast<std::uint16_t>(std::atoi(etcd.substr(etcd.rfind(':') + 1).c_str()))),
        decide_(std::move(decide)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~EtcdRelay() {
    ::shutdown(listener_.fd.get(), SHUT_RDWR);
    thread_.join();
  }
  EtcdRelay(const EtcdRelay&) = delete;
  EtcdRelay& operator=(const EtcdRelay&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  /// Hands on the transactions that are late, and returns how many these were.
  std::size_t Deliver() {
    std::vector<std::string> late;
    {
      const MutexLock lock(mutex_);
      late.swap(late_);
    }
    for (const std::string& request : late) Ask(request);
    return late.size();
  }

 private:
  /// Reads a request or an answer, whose header has its length, or to the end of the connection.
  static std::string ReceiveMessage(int fd) {
    std::string message;
    for (;;) {
      const std::size_t header = message.find("\r\n\r\n");
      if (header != std::string::npos) {
        std::size_t length = message.find("Content-Length: ");
        if (length == std::string::npos) length = message.find("content-length: ");
        const std::size_t body =
            length < header ? std::strtoull(message.c_str() + length + 16, nullptr, 10) : std::size_t{0};
        if (length < header && message.size() >= header + 4 + body) return message;
        if (length > header && message.ends_with("\r\n0\r\n\r\n")) return message;  // in chunks
      }
      char bytes[1 << 14];
      const ssize_t count = ::recv(fd, bytes, sizeof(bytes), 0);
      if (count <= 0) return message;
      message.append(bytes, static_cast<std::size_t>(count));
    }
  }
  std::string Ask(const std::string& request) const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(port_);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    SendAll(fd, request);
    std::string answer = ReceiveMessage(fd);
    ::close(fd);
    return answer;
  }
  void Run() {
    for (int transactions = 0;;) {
      const int fd = ::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::string request = ReceiveMessage(fd);
      const bool is_transaction = request.starts_with("POST /v3/kv/txn ");
      const Relayed outcome = is_transaction ? decide_(++transactions) : Relayed::kDone;
      if (outcome == Relayed::kDone) SendAll(fd, Ask(request));
      if (outcome == Relayed::kAnswerLost) Ask(request);
      if (outcome == Relayed::kLate) {
        const MutexLock lock(mutex_);
        late_.push_back(request);
      }
      ::close(fd);
    }
  }

  const std::uint16_t port_;
  const std::function<Relayed(int)> decide_;
  const LoopbackListener listener_;
  const std::string endpoint_ = absl::StrCat("http://127.0.0.1:", listener_.port());
  Mutex mutex_;
  std::vector<std::string> late_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace remora
