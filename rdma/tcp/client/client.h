// The client's end of a tcp:// connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rdma/requests.h"
#include "rdma/tcp/stream/frame_reader.h"
#include "rdma/tcp/stream/outbox.h"
#include "rdma/tcp/stream/socket.h"
#include "rdma/tcp/stream/tls_context.h"
#include "rdma/tcp/stream/tls_stream.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Client's connection over a TCP socket. It has no thread: all work is done in the caller's calls. Posted
/// READs and FINDs leave with the next Poll, Wait, Arm or PostSend, so those that are posted together leave
/// together.
///
/// The class has more than 25 methods and 15 fields, because it implements two interfaces, makes the
/// handshake, and keeps what is posted until its answer has come.
///
/// Thread safety: none.
class TcpClient final : public ClientConnection {
 public:
  /// `tls` is null for an address without TLS.
  TcpClient(const Address& address, std::vector<TcpSocketAddress> hosts, const QueueLimits& limits,
            const Clock& clock, std::shared_ptr<const TlsContext> tls);
  ~TcpClient() override;

  absl::StatusOr<std::unique_ptr<Registration>> RegisterMessages(std::span<std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<Registration>> RegisterWrite(SharedMemory& memory) override;
  absl::Status OfferWrite(SharedMemory& memory) override;
  absl::Status Connect(std::span<const std::byte> request_data, TimePoint deadline) override;
  std::span<const std::byte> peer_data() const override { return peer_data_; }
  void Disconnect() override;

  absl::Status PostReadv(std::uint64_t context, std::span<const Sge> to, const RemoteRegion& region,
                         std::uint64_t offset) override;
  bool finds() const override { return true; }
  absl::Status PostFind(std::uint64_t context, const Sge& bucket, const Sge& record,
                        const RemoteRegion& region, std::uint64_t offset, std::uint32_t fingerprint,
                        FoundRecord* found) override;
  absl::Status PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override;
  absl::Status PostSend(std::uint64_t context, const Sge& from) override;
  absl::Status PostRecv(std::uint64_t context, const Sge& into) override;
  std::size_t Poll(std::span<Completion> out) override;
  bool PollingPays() override;
  int PollCost() const override;
  absl::Status Wait(TimePoint deadline) override;
  void Arm() override;
  void Disarm() override { armed_ = false; }
  int wait_fd() const override { return epoll_.get(); }
  const absl::Status& status() const override { return failure_; }
  std::string peer() const override { return peer_; }

 private:
  class Offered;

  struct Posted {
    std::uint64_t context = 0;
    CompletionKind kind = CompletionKind::kRead;
    std::uint32_t requests = 0;  // this one, and the WRITEs directly before it
    std::uint64_t frame = 0;     // the outbox's count of added frames, with this one
    std::array<Sge, kMaxSges> to{};
    std::size_t to_count = 0;
    std::uint32_t size = 0;
    std::uint64_t region = 0;      // for a FIND: the address of its region
    FoundRecord* found = nullptr;  // not null for a FIND, whose second entry of `to` may stay empty
  };
  struct Done {
    Completion completion;
    std::uint32_t requests = 0;
  };

  // The handshake.
  absl::Status Shake(std::span<const std::byte> request_data, TimePoint deadline);
  absl::Status ShakeWith(const TcpSocketAddress& host, std::span<const std::byte> request_data,
                         TimePoint deadline);
  absl::Status ConnectSocket(const TcpSocketAddress& host, TimePoint deadline);
  absl::Status AwaitSocket(short events, TimePoint deadline) const;
  absl::Status ShakeTls(TimePoint deadline);
  absl::Status TakeReply(TimePoint deadline);
  absl::Status FailureOfTls(absl::Status why) const;
  absl::Status MakeWaitable();

  absl::Status CheckPost(std::uint64_t size) const;
  /// Sends frames of the outbox. Returns whether it has just sent all requests that wait for an answer, so
  /// that it is too early to receive one.
  bool Flush();
  void CompleteFront();
  void ReceiveFrames();
  void TakeFilled(TcpInbox::Filled filled);
  /// Takes the frames that have arrived. False: the client can take no more now.
  bool TakeFrames();
  bool Begin(const FrameHeader& header);
  bool BeginAnswer(const FrameHeader& header);
  bool BeginFindAnswer(const FrameHeader& header);
  /// Returns the READ or FIND that the server must answer next. Null: it has answered all that have left.
  Posted* NextAsked();
  bool RejectAnswer(const FrameHeader& header);
  bool BeginWrite(const FrameHeader& header);
  void FinishAnswer();
  std::size_t TakeDone(std::span<Completion> out);
  std::size_t FlushPosted(std::span<Completion> out);
  /// Breaks the connection, and sends the server the reason.
  void RejectFrame(absl::Status why);
  void Break(absl::Status why);
  void UpdateInterest();
  bool has_output() const { return !outbox_.empty() || (tls_ != nullptr && tls_->has_output()); }
  /// Returns whether bytes have arrived that no event announces.
  bool has_input() const { return tls_ != nullptr && tls_->has_input(); }

  const std::string name_;
  const std::string host_;
  const std::vector<TcpSocketAddress> hosts_;
  const QueueLimits limits_;
  const Clock& clock_;
  std::string peer_;
  UniqueFd socket_;
  const std::shared_ptr<const TlsContext> tls_context_;  // null without TLS
  std::unique_ptr<TlsStream> tls_;                       // null without TLS
  UniqueFd epoll_;                                       // watches the socket
  bool is_same_host_ = false;                            // the server runs on this host
  bool polling_pays_ = true;
  std::uint32_t hints_ = 0;  // calls of PollingPays
  std::uint32_t interest_ = 0;
  std::vector<std::byte> peer_data_;
  SharedMemory* offered_ = nullptr;
  int offered_count_ = 0;  // living registrations of offered_
  absl::Status failure_;
  bool asked_ = false;
  bool is_usable_ = false;
  bool is_stuck_ = false;  // the next frame is a message without a receive
  bool armed_ = false;
  bool disconnect_reported_ = false;
  int send_error_ = 0;  // an errno; the bytes still to be received may state a better reason

  std::vector<std::byte> buffer_ = std::vector<std::byte>(TcpInbox::kBufferSize);
  TcpFrameReader reader_;

  TcpOutbox outbox_;
  FixedQueue<Posted> posted_;  // READs, FINDs and SENDs
  FixedQueue<Done> done_;
  std::uint32_t in_flight_ = 0;
  std::uint32_t uncovered_ = 0;  // WRITEs posted after the last element of posted_
  std::uint32_t posted_receives_ = 0;
};

}  // namespace remora::rdma
