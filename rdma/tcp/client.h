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
#include "rdma/tcp/frame_reader.h"
#include "rdma/tcp/outbox.h"
#include "rdma/tcp/socket.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// All in the caller's thread. READs leave with the next Poll, Wait, Arm or PostSend: those that are posted
/// together leave together.
class TcpClient final : public ClientConnection {
 public:
  TcpClient(const Address& address, std::vector<TcpSocketAddress> hosts, const QueueLimits& limits,
            const Clock& clock);
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
    std::uint32_t requests = 0;  // this and the WRITEs before it
    std::uint64_t frame = 0;     // of the outbox
    std::array<Sge, kMaxSges> to{};
    std::size_t to_count = 0;
    std::uint32_t size = 0;
    std::uint64_t region = 0;      // a FIND: the address of its region
    FoundRecord* found = nullptr;  // not null: a FIND, whose second entry may stay empty
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
  absl::Status TakeReply(TimePoint deadline);
  absl::Status MakeWaitable();

  absl::Status CheckPost(std::uint64_t size) const;
  /// Returns whether it sent something, and all that waits for an answer was in it.
  bool Flush();
  void CompleteFront();
  void ReceiveFrames();
  void TakeFilled(TcpInbox::Filled filled);
  /// False: no more can be taken now.
  bool TakeFrames();
  bool Begin(const FrameHeader& header);
  bool BeginAnswer(const FrameHeader& header);
  bool BeginFindAnswer(const FrameHeader& header);
  /// The READ or FIND that is to be answered next; null: all that have left are answered.
  Posted* NextAsked();
  bool RefuseAnswer(const FrameHeader& header);
  bool BeginWrite(const FrameHeader& header);
  void FinishAnswer();
  std::size_t TakeDone(std::span<Completion> out);
  std::size_t FlushPosted(std::span<Completion> out);
  /// Tells the server why, too.
  void Refuse(absl::Status why);
  void Break(absl::Status why);
  void UpdateInterest();

  const std::string name_;
  const std::vector<TcpSocketAddress> hosts_;
  const QueueLimits limits_;
  const Clock& clock_;
  std::string peer_;
  UniqueFd socket_;
  UniqueFd epoll_;             // of the socket
  bool is_same_host_ = false;  // the server
  bool polling_pays_ = true;
  std::uint32_t hints_ = 0;  // that were given since polling_pays_ was found out
  std::uint32_t interest_ = 0;
  std::vector<std::byte> peer_data_;
  SharedMemory* offered_ = nullptr;
  int offered_count_ = 0;  // registrations of it that live
  absl::Status failure_;
  bool asked_ = false;
  bool is_usable_ = false;
  bool is_stuck_ = false;  // the next frame is a message without a receive
  bool armed_ = false;
  bool disconnect_told_ = false;
  int send_error_ = 0;  // what is read says more

  std::vector<std::byte> buffer_ = std::vector<std::byte>(TcpInbox::kBufferSize);
  TcpFrameReader reader_;

  TcpOutbox outbox_;
  FixedQueue<Posted> posted_;  // READs and SENDs
  FixedQueue<Done> done_;
  std::uint32_t under_way_ = 0;
  std::uint32_t uncovered_ = 0;  // WRITEs behind the last of posted_
  std::uint32_t posted_receives_ = 0;
};

}  // namespace remora::rdma
