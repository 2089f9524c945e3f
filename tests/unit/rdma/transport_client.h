// The client's side of the transport suite: each step of a test in one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "rdma/adaptive_poll.h"
#include "rdma/transport.h"
#include "tests/unit/rdma/transport_service.h"

namespace remora::rdma {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}
MATCHER_P(HasCode, code, "") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}
/// The bytes of the service's region.
std::string RegionText(std::uint64_t offset, std::size_t size);
/// A message for the service.
std::string CommandText(ServiceOp op, std::uint64_t a = 0, std::uint64_t b = 0);
/// The 8 bytes of a reply.
std::uint64_t NumberIn(std::string_view reply);

struct ClientOptions {
  ServiceMode mode = ServiceMode::kServe;
  std::string request_tail = {};  // request data behind the mode
  QueueLimits limits = {};
  std::uint32_t receive_size = kMaxMessageSize;
  std::size_t read_buffer_size = 64 << 10;
  SharedMemory* offered = nullptr;
};

/// A connection with its buffers. Waits with PollUntil, for a minute at most.
class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Open(const Address& address, const Clock& clock,
                                                      const ClientOptions& options = {});
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  ClientConnection& connection() { return *connection_; }
  const Welcome& welcome() const { return welcome_; }

  /// READs the bytes from `offset` on into one place for each of `sizes`, apart from each other; returns them
  /// joined.
  absl::StatusOr<std::string> Read(std::uint64_t offset, std::initializer_list<std::size_t> sizes);
  absl::StatusOr<std::string> ReadFrom(const RemoteRegion& region, std::uint64_t offset,
                                       std::initializer_list<std::size_t> sizes);
  /// Posts one READ of `size` bytes and returns.
  absl::Status PostRead(std::uint64_t offset, std::uint32_t size);
  /// Posts a WRITE into the staging buffer. `bytes` are copied to the same offset of a buffer of its
  /// size, so no place may be written again before the end of a SEND behind it.
  absl::Status Write(std::uint64_t offset, std::string_view bytes);
  /// Posts a WRITE to any region, from the beginning of that buffer.
  absl::Status WriteTo(const RemoteRegion& region, std::uint64_t offset, std::string_view bytes);
  /// Posts a message.
  absl::Status Send(std::string_view message);
  /// The next message, or why none came.
  absl::StatusOr<std::string> Receive();
  /// Send, then Receive.
  absl::StatusOr<std::string> Call(std::string_view message);
  /// Takes what has come, without waiting; returns how much.
  std::size_t Poll();
  /// Waits for the end of `count` READs, whatever it is.
  absl::Status AwaitReads(std::size_t count);
  /// Waits for kDisconnected, sees that nothing comes after it, and returns the cause.
  absl::StatusOr<absl::Status> AwaitDisconnect();

  std::size_t receive_count() const { return received_.size(); }

 private:
  Client(const Clock& clock, const ClientOptions& options) : clock_(clock), options_(options) {}
  absl::Status Connect(const Address& address);
  absl::Status PostReceive(std::uint64_t index);
  /// Waits for some completions and notes them.
  absl::Status Advance();
  void Note(const Completion& completion);
  std::span<std::byte> Buffer(std::size_t offset, std::size_t size) {
    return std::span(memory_).subspan(offset, size);
  }

  const Clock& clock_;
  const ClientOptions options_;
  std::vector<std::byte> memory_;  // receive buffers, send buffers, the buffer to WRITE from, the read buffer
  std::size_t sends_at_ = 0;
  std::size_t writes_at_ = 0;
  std::size_t reads_at_ = 0;
  std::unique_ptr<ClientConnection> connection_;
  AdaptivePoller spinner_;
  std::unique_ptr<Registration> registration_;
  Welcome welcome_;
  std::deque<std::string> received_;
  std::size_t sent_ = 0;
  std::size_t reads_ended_ = 0;
  int disconnects_ = 0;
  int after_disconnect_ = 0;
};

}  // namespace remora::rdma
