// A client that speaks the protocol by hand, and may break it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rdma/adaptive_poll.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/wire/messages.h"

namespace remora {

class HandClient {
 public:
  /// Over a connection that is dialled and not connected. Must not be rejected.
  HandClient(std::unique_ptr<rdma::ClientConnection> connection, const Clock& clock,
             const HelloRequest& hello = HelloRequest())
      : clock_(clock), connection_(std::move(connection)) {
    auto registration = connection_->RegisterMessages(buffer_);
    Check(registration.status());
    registration_ = *std::move(registration);
    for (std::uint64_t i = 0; i < kReceives; ++i) Check(PostReceive(i));
    Check(connection_->Connect(AsBytes(hello), Deadline()));
    EXPECT_TRUE(FromBytes(connection_->peer_data(), &hello_));
  }

  const HelloReply& hello() const { return hello_; }

  /// WRITEs bytes; a SEND or Ping behind it tells what became of them.
  void Write(const RemoteRegion& region, std::uint64_t offset, std::string_view bytes) {
    for (std::size_t done = 0; done < bytes.size(); done += kPayloadSize) {
      const std::string_view piece = bytes.substr(done, kPayloadSize);
      std::memcpy(buffer_.data() + kPayloadAt, piece.data(), piece.size());
      const rdma::Sge from = rdma::MakeSge(*registration_, kPayloadAt, piece.size());
      if (!connection_->PostWritev(std::span(&from, 1), region, offset + done).ok()) return;
      // The buffer is ours again when a message behind it is answered.
      if (piece.size() < bytes.size() && !Ask(Operation::kPing, 0, 0).has_value()) return;
    }
  }

  struct Answer {
    Reply reply;
    std::string behind;

    ReplyStatus status() const { return reply.status; }
    RemoteRegion grant() const {
      Grant grant;
      return FromBytes(std::as_bytes(std::span(behind)), &grant) ? grant.region : RemoteRegion();
    }
  };

  /// The next request gets the id behind this.
  void set_last_id(std::uint64_t id) { last_id_ = answered_ = id; }

  void Post(Request request) {
    request.request_id = ++last_id_;
    if (request.payload_checksum == 0 && request.operation == Operation::kPut) {
      request.payload_checksum = PayloadChecksum(request, key_hash_, value_hash_);
    }
    if (request.payload_checksum == 0 && request.operation == Operation::kFinishLargePut) {
      request.payload_checksum = PayloadChecksum(request, key_hash_, value_hash_);
    }
    std::memcpy(buffer_.data() + kRequestAt, &request, sizeof(request));
    connection_->PostSend(0, rdma::MakeSge(*registration_, kRequestAt, sizeof(request))).IgnoreError();
  }
  /// The answer to the last request. Nothing: the connection ended, or no answer came in `patience`. The
  /// usual one is less than kReservationSeconds: in simulated time, a longer one would outlast all
  /// reservations.
  std::optional<Answer> Await(std::chrono::milliseconds patience = kUsualPatience) {
    const TimePoint deadline = clock_.Now() + patience;
    while (answered_ < last_id_) {
      std::array<rdma::Completion, 4> completions;
      const auto count = rdma::PollUntil(*connection_, completions, deadline, spinner_);
      if (!count.ok()) return std::nullopt;
      for (std::size_t i = 0; i < *count; ++i) {
        // Where a WRITE was rejected, the connection is broken, and not every device tells of its end.
        if (completions[i].kind == rdma::CompletionKind::kDisconnected || !completions[i].ok)
          return std::nullopt;
        if (completions[i].kind == rdma::CompletionKind::kReceive) Take(completions[i]);
      }
    }
    return answer_;
  }
  std::optional<Answer> Ask(const Request& request) {
    Post(request);
    return Await();
  }
  /// With the checksum of these bytes, in the staging buffer as value.
  void PostChecked(Request request, std::string_view value) {
    request.request_id = last_id_ + 1;
    request.payload_checksum = PayloadChecksum(request, HashKey({}), HashValue(value.data(), value.size()));
    Post(request);
  }
  std::optional<Answer> AskChecked(const Request& request, std::string_view value) {
    PostChecked(request, value);
    return Await();
  }
  /// With these bytes behind the request, and the checksum of so many of them as it says are key and value.
  std::optional<Answer> AskInline(Request request, std::string_view payload) {
    const std::string_view key = payload.substr(0, request.key_size);
    const std::string_view value = payload.substr(key.size(), request.value_size);
    request.request_id = ++last_id_;
    request.payload_checksum = PayloadChecksum(request, HashKey(key), HashValue(value.data(), value.size()));
    std::memcpy(buffer_.data() + kPayloadAt, &request, sizeof(request));
    payload.copy(reinterpret_cast<char*>(buffer_.data() + kPayloadAt + sizeof(request)), payload.size());
    connection_->PostSend(0, rdma::MakeSge(*registration_, kPayloadAt, sizeof(request) + payload.size()))
        .IgnoreError();
    return Await();
  }
  std::optional<Answer> Ask(Operation operation, std::size_t key_size, std::size_t value_size) {
    return Ask(MakeRequest(operation, key_size, value_size));
  }
  static Request MakeRequest(Operation operation, std::size_t key_size, std::size_t value_size) {
    Request request;
    request.operation = operation;
    request.key_size = static_cast<std::uint16_t>(key_size);
    request.value_size = static_cast<std::uint32_t>(value_size);
    return request;
  }

  /// Fills what was reserved, and makes Commit's checksum that of these two.
  void Fill(const RemoteRegion& grant, std::string_view key, std::string_view value) {
    key_hash_ = HashKey(key);
    value_hash_ = HashValue(value.data(), value.size());
    const std::string bytes = std::string(key) + std::string(value);
    if (grant.size > 0) return Write(grant, 0, bytes);
    for (std::size_t done = 0; done < bytes.size(); done += kPayloadSize) {
      const std::string_view part = std::string_view(bytes).substr(done, kPayloadSize);
      Write(hello_.staging, 0, part);
      const auto answer = Ask(Operation::kPart, 0, part.size());
      EXPECT_TRUE(answer.has_value() && answer->status() == ReplyStatus::kOk);
    }
  }
  /// A small value.
  std::optional<Answer> Put(std::string_view key, std::string_view value) {
    key_hash_ = HashKey(key);
    value_hash_ = HashValue(value.data(), value.size());
    Write(hello_.staging, 0, std::string(key) + std::string(value));
    return Ask(Operation::kPut, key.size(), value.size());
  }
  /// Commits a put of bytes that have been WRITTEN.
  std::optional<Answer> CommitPut(std::string_view key, std::string_view value) {
    key_hash_ = HashKey(key);
    value_hash_ = HashValue(value.data(), value.size());
    return Ask(Operation::kPut, key.size(), value.size());
  }
  /// Asks for the outcome of the write with this id.
  std::optional<Answer> AskForOutcome(std::uint64_t request_id) {
    Request request = MakeRequest(Operation::kQueryCompletion, 0, 0);
    request.payload_offset = request_id;
    return Ask(request);
  }
  std::optional<Answer> Reserve(std::string_view key, std::string_view value) {
    return Ask(Operation::kReserve, key.size(), value.size());
  }
  std::optional<Answer> Commit(std::string_view key, std::string_view value) {
    return Ask(Operation::kFinishLargePut, key.size(), value.size());
  }

 private:
  static constexpr std::uint64_t kReceives = 4;
  static constexpr std::size_t kReceiveSize = 512;
  static constexpr std::size_t kRequestAt = kReceives * kReceiveSize;
  static constexpr std::size_t kPayloadAt = kRequestAt + 256;
  static constexpr std::size_t kPayloadSize = std::size_t{256} << 10;
  static_assert(kMaxReplySize <= kReceiveSize);
  static constexpr std::chrono::seconds kUsualPatience{20};
  static_assert(kUsualPatience.count() < kReservationSeconds);

  static void Check(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; }
  TimePoint Deadline() const { return clock_.Now() + std::chrono::seconds(60); }

  absl::Status PostReceive(std::uint64_t index) {
    return connection_->PostRecv(index, rdma::MakeSge(*registration_, index * kReceiveSize, kReceiveSize));
  }
  void Take(const rdma::Completion& completion) {
    const std::byte* const message = buffer_.data() + completion.context * kReceiveSize;
    std::memcpy(&answer_.reply, message, sizeof(Reply));
    answer_.behind.assign(reinterpret_cast<const char*>(message) + sizeof(Reply), answer_.reply.behind_size);
    answered_ = answer_.reply.request_id;
    Check(PostReceive(completion.context));
  }

  const Clock& clock_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kPayloadAt + kPayloadSize);
  std::unique_ptr<rdma::ClientConnection> connection_;
  rdma::AdaptivePoller spinner_;
  std::unique_ptr<rdma::Registration> registration_;
  HelloReply hello_;
  std::uint64_t last_id_ = 0;
  std::uint64_t answered_ = 0;
  Answer answer_;
  std::uint64_t key_hash_ = 0;
  std::uint64_t value_hash_ = 0;
};

inline void CheckAnswer(ReplyStatus wanted, const std::optional<HandClient::Answer>& answer) {
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(static_cast<int>(answer->status()), static_cast<int>(wanted)) << answer->behind;
}
/// Fails the test unless the answer came and has this status.
#define ASSERT_ANSWER(code, answer) ASSERT_NO_FATAL_FAILURE(CheckAnswer(ReplyStatus::code, answer))

}  // namespace remora
