// One accepted connection, which the server thread and a NIC thread share.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "rdma/requests.h"
#include "rdma/tcp/server/events.h"
#include "rdma/tcp/stream/frame_reader.h"
#include "rdma/tcp/stream/outbox.h"
#include "rdma/tcp/stream/tls_stream.h"
#include "rdma/transport.h"
#include "rdma/unique_fd.h"
#include "store/base/mutex.h"

namespace remora::rdma {

/// The server's end of one connection. One mutex guards a link. A NIC thread holds it for one turn, and only
/// then receives into memory of the connection, or sends from it. So after the server thread has taken back
/// memory under the mutex, the NIC thread does not touch that memory any more.
///
/// Bounds. If a peer does not take its answers, the NIC thread stops reading from it. So the frames that wait
/// to be sent are at most kMaxAnswers answers (link.cc), and those that the server thread has posted
/// (QueueLimits::sends). A message without a receive stays in the stream, and so do all frames behind it.
///
/// The class has more than 25 methods and 15 fields, because two threads share it: each has functions of its
/// own, over one stream of frames.
///
/// Thread safety: each section names the thread that calls its functions.
class TcpLink : public std::enable_shared_from_this<TcpLink> {
 public:
  /// `tls` is null for a plain socket.
  TcpLink(UniqueFd socket, const QueueLimits& limits, TcpEvents& events,
          std::unique_ptr<TlsStream> tls = nullptr);
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  // --- The server thread -------------------------------------------------------------------------

  /// Allows the peer to READ `bytes` under this key. REQUIRES: the link has and had no other region with it.
  void AddRead(std::uint32_t key, std::span<std::byte> bytes);
  /// Allows the peer to READ and WRITE `bytes` under this key. The first byte has the offset `address` in
  /// frames. REQUIRES: the link has and had no other region with this key.
  void AddWrite(std::uint32_t key, std::uint64_t address, std::span<std::byte> bytes);
  /// Takes back the region with this key. After the return, the peer can change no byte of it. If an answer
  /// with bytes of the region still waits to be sent, the connection breaks.
  void Deregister(std::uint32_t key);

  /// Answers the client's hello, as far as the socket takes the answer at once.
  void Answer(TcpAnswer answer, std::span<const std::byte> data);
  /// Makes the NIC thread with this epoll serve the link from now on, and count what it reads in `served`.
  /// False: the system has no memory for that.
  bool Start(int epoll, ServedReads& served, Connection* connection);
  /// Needs no mutex: the server thread alone changes this.
  bool started() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return connection_ != nullptr; }

  absl::Status PostRecv(std::uint64_t context, const Sge& into);
  absl::Status PostSend(std::uint64_t context, const Sge& from);
  absl::Status PostWritev(std::span<const Sge> from, const RemoteRegion& region, std::uint64_t offset);
  /// Implements Listener::Poll for this link: moves completions to `out`, and returns their number.
  std::size_t Take(std::span<Completion> out);
  /// Returns the first cause of a failure; OK while there is none.
  absl::Status failure();
  /// Ends the connection. Afterwards the link uses no memory of the connection. It closes the socket, or
  /// leaves that to the NIC thread if the peer is still to receive the reason for the end.
  void End();

  bool is_reported = false;  // belongs to TcpEvents, whose mutex guards it

  // --- The NIC thread ----------------------------------------------------------------------------

  struct Handled {
    bool has_completions = false;  // the caller reports the link to the server thread
    /// The link has just given up its peer, and keeps the socket open so that the peer can receive the
    /// reason. The caller calls CloseIfEnding a while later.
    bool is_new_end = false;
  };
  /// Handles events of the socket.
  Handled Handle(std::uint32_t events, std::span<std::byte> buffer);
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
    std::uint64_t frame = 0;     // the outbox's count of frames that have left, when this send is done
    std::uint32_t requests = 0;  // this one, and the WRITEs directly before it
  };
  struct Done {
    Completion completion;
    std::uint32_t requests = 0;
  };

  void ReceiveFrames(std::span<std::byte> buffer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Takes the frames that have arrived. False: the link can take no more now.
  bool TakeFrames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Begin(const FrameHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BeginRead(const FrameHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BeginFind(const FrameHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BeginWrite(const FrameHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Region* Find(std::uint32_t key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns the bytes that the frame names; null if the peer may not READ them, or WRITE them.
  std::byte* Access(const FrameHeader& header, bool writes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPost(std::span<const Sge> from) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompleteSends() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drain(std::span<std::byte> buffer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RejectFrame(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Break(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateInterest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns whether frames wait because the peer does not receive.
  bool is_blocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return has_output() && !send_failed_; }
  bool has_output() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !outbox_.empty() || (tls_ != nullptr && tls_->has_output());
  }
  /// Returns why receiving failed with this errno.
  absl::Status ReceiveError(int error) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool has_completions() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !done_.empty() || (!failure_.ok() && !disconnect_reported_);
  }

  const QueueLimits limits_;
  TcpEvents& tcp_events_;

  Mutex mutex_;
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<TlsStream> tls_ ABSL_GUARDED_BY(mutex_);  // null for a plain socket
  int epoll_ ABSL_GUARDED_BY(mutex_) = -1;
  ServedReads* served_ ABSL_GUARDED_BY(mutex_) = nullptr;     // the NIC thread alone changes them
  Connection* connection_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null before Start and after End
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool disconnect_reported_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) =
      false;  // failed; the socket stays open until the peer has received the reason
  bool is_parked_ ABSL_GUARDED_BY(mutex_) = false;     // the next frame is a message without a receive
  bool wants_turn_ ABSL_GUARDED_BY(mutex_) = false;    // there are bytes that no event announces
  bool send_failed_ ABSL_GUARDED_BY(mutex_) = false;   // receiving will give the reason
  bool reads_slowly_ ABSL_GUARDED_BY(mutex_) = false;  // the peer does not receive at the pace of its answers
  std::uint32_t interest_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Region> regions_ ABSL_GUARDED_BY(mutex_);

  TcpFrameReader reader_ ABSL_GUARDED_BY(mutex_);

  TcpOutbox outbox_ ABSL_GUARDED_BY(mutex_);
  FixedQueue<Send> sends_ ABSL_GUARDED_BY(mutex_);
  FixedQueue<Done> done_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t in_flight_ ABSL_GUARDED_BY(mutex_) =
      0;  // posted SENDs and WRITEs whose completion Take has not returned
  std::uint32_t uncovered_ ABSL_GUARDED_BY(mutex_) = 0;  // WRITEs posted after the last SEND
  std::uint32_t posted_receives_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace remora::rdma
