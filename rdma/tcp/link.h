// One accepted connection, as the server thread and its NIC thread share it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rdma/requests.h"
#include "rdma/tcp/events.h"
#include "rdma/tcp/frame_reader.h"
#include "rdma/tcp/outbox.h"
#include "rdma/transport.h"
#include "rdma/unique_fd.h"

namespace remora::rdma {

/// What a NIC thread has done.
struct NicCounters {
  std::atomic<std::uint64_t> reads = 0;       // READs and FINDs that it answered
  std::atomic<std::uint64_t> read_bytes = 0;  // of them
};

/// One mutex guards a link. A NIC thread holds it for one turn: it receives into memory of the connection,
/// and sends from it, only then. So what the server thread has struck or taken back under the mutex is not
/// touched any more.
///
/// Bounds. A peer that does not take its answers is not read from: frames that wait to be sent are those of
/// one full buffer of READs, and what the server thread has posted (QueueLimits::sends). A message for which
/// there is no receive stays where it is, and so does what is behind it.
///
/// Thread Safety: as the sections say.
class TcpLink : public std::enable_shared_from_this<TcpLink> {
 public:
  TcpLink(UniqueFd socket, const QueueLimits& limits, TcpEvents& events);
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  // --- The server thread -------------------------------------------------------------------------

  /// Makes the bytes the peer's to READ, or to WRITE, too, under this key, which no other region of the link
  /// has or had. A frame's offset is counted from `address`, which stands for the first byte.
  void AddRead(std::uint32_t key, std::span<std::byte> bytes);
  void AddWrite(std::uint32_t key, std::uint64_t address, std::span<std::byte> bytes);
  /// Takes them back. On return no byte of them changes by the peer's doing any more.
  void Deregister(std::uint32_t key);

  /// Answers the client's hello, as far as the socket takes that at once.
  void Answer(TcpAnswer answer, std::span<const std::byte> data);
  /// From now on the NIC thread with this epoll serves it. False: the system has no memory for that.
  bool Start(int epoll, NicCounters& counters, Connection* connection);
  bool started() const { return connection_ != nullptr; }

  absl::Status PostRecv(std::uint64_t context, const Sge& into);
  absl::Status PostSend(std::uint64_t context, const Sge& from);
  absl::Status PostWritev(std::span<const Sge> from, const RemoteRegion& region, std::uint64_t offset);
  /// Connection::Poll.
  std::size_t Take(std::span<Completion> out);
  /// The first cause of a failure.
  absl::Status failure();
  /// Closes the socket, and uses nothing of the connection any more.
  void End();

  bool is_reported = false;  // TcpEvents's, guarded by its mutex

  // --- The NIC thread ----------------------------------------------------------------------------

  /// Does what can be done now. True: the link has just given up its peer, and gives it a while to hear why;
  /// then CloseIfEnding.
  bool Handle(std::uint32_t events, std::span<std::byte> buffer);
  void CloseIfEnding();

 private:
  struct Region {
    std::uint32_t key = 0;
    bool writable = false;
    std::uint64_t address = 0;
    std::span<std::byte> bytes;
  };
  struct Send {
    std::uint64_t context = 0;
    std::uint64_t frame = 0;     // of the outbox: with it the send is done
    std::uint32_t requests = 0;  // this and the WRITEs before it
  };
  struct Done {
    Completion completion;
    std::uint32_t requests = 0;
  };

  // All REQUIRE mutex_.
  void ReceiveFrames(std::span<std::byte> buffer);
  /// Takes frames that have come. False: no more can be taken now.
  bool TakeFrames();
  bool Begin(const FrameHeader& header);
  bool BeginRead(const FrameHeader& header);
  bool BeginFind(const FrameHeader& header);
  bool BeginWrite(const FrameHeader& header);
  const Region* Find(std::uint32_t key) const;
  /// The bytes that the frame names, if they may be read, or written.
  std::byte* Access(const FrameHeader& header, bool writes) const;
  absl::Status CheckPost(std::span<const Sge> from) const;
  void Flush();
  void CompleteSends();
  void Drain(std::span<std::byte> buffer);
  void Refuse(absl::Status why);
  void Break(absl::Status why);
  void Close();
  void UpdateInterest();
  /// The peer does not take what it is sent.
  bool is_blocked() const { return !outbox_.empty() && !send_failed_; }
  bool has_news() const { return !done_.empty() || (!failure_.ok() && !disconnect_told_); }

  const QueueLimits limits_;
  TcpEvents& tcp_events_;

  std::mutex mutex_;
  // Guarded by mutex_.
  UniqueFd socket_;
  int epoll_ = -1;
  NicCounters* counters_ = nullptr;
  Connection* connection_ = nullptr;  // null before Start and after End
  absl::Status failure_;
  bool disconnect_told_ = false;
  bool is_ending_ = false;     // failed; the socket is open until the peer has heard why
  bool is_parked_ = false;     // the next frame is a message without a receive
  bool wants_turn_ = false;    // there are bytes that no event announces
  bool send_failed_ = false;   // what is read will say why
  bool reads_slowly_ = false;  // the peer
  std::uint32_t interest_ = 0;
  std::vector<Region> regions_;

  TcpFrameReader reader_;

  TcpOutbox outbox_;
  FixedQueue<Send> sends_;
  FixedQueue<Done> done_;
  std::uint32_t under_way_ = 0;  // sends not yet taken by Take
  std::uint32_t uncovered_ = 0;  // WRITEs behind the last SEND
  std::uint32_t posted_receives_ = 0;
};

}  // namespace remora::rdma
