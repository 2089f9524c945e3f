// Reader of the frames of a connection, which both ends use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "rdma/requests.h"
#include "rdma/tcp/stream/inbox.h"
#include "rdma/tcp/stream/wire.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Takes frames in the order of the stream. It handles MESSAGE and END frames itself. It gives every other
/// frame to its user, because the user knows its own regions and requests.
///
/// Thread safety: none.
class TcpFrameReader {
 public:
  enum class Step : std::uint8_t {
    kFrame = 1,  // header() belongs to a frame for the user, which calls Expect or ends the connection
    kWhole,      // the frame of header() is whole, and its payload is in its place
    kMessage,    // a message filled a receive: call TakeMessage
    kNothing,    // the reader needs more bytes
    kParked,     // the next frame is a message, and no receive is posted
    kRejected,   // the frame breaks the rules; error() states the reason
    kEnded,      // the peer gave up the connection; error() states the reason
  };

  /// Makes a reader with space for `receives` receives. `peer`: "the server" or "the client", for errors.
  TcpFrameReader(std::uint32_t receives, std::string_view peer);

  /// Returns the inbox, with which the user receives bytes, and begins and ends turns.
  TcpInbox& inbox() { return inbox_; }
  const TcpInbox& inbox() const { return inbox_; }

  /// Takes bytes from the inbox up to the next step.
  Step Advance();
  const FrameHeader& header() const { return header_; }
  /// Accepts the frame of header(), whose payload goes to `to` and has as many bytes as `to`. REQUIRES:
  /// Advance returned kFrame; to.size() <= kMaxSges.
  void Expect(std::span<const Sge> to);
  /// Returns whether bytes of a WRITE are still to come. They go to the memory given to Expect. So the user
  /// asks before each Advance, and ends the connection if the peer may not write that memory any more.
  bool is_within_write() const { return is_within_ && header_.kind == FrameKind::kWrite; }
  const absl::Status& error() const { return error_; }
  /// Returns the error for a frame of a kind that the user does not accept.
  absl::Status UnknownFrame() const;

  /// Adds a receive, which a later message fills. REQUIRES: fewer than `receives` are posted.
  void PostReceive(std::uint64_t context, const Sge& into) { receives_.push({context, into}); }
  /// Returns the completion of the receive that was filled. REQUIRES: Advance returned kMessage.
  Completion TakeMessage(Connection* connection);
  /// Removes the next receive, which no message will fill, and stores its context in *context. False: there
  /// is none.
  bool DropReceive(std::uint64_t* context);

  /// Returns whether the header of a frame has arrived that has not begun. REQUIRES: within a turn.
  bool has_frame() { return !is_within_ && inbox_.Next() != nullptr; }

 private:
  struct Receive {
    std::uint64_t context = 0;
    Sge into;
  };

  /// Checks the header of a frame, and begins a MESSAGE or an END. kNothing: the frame has begun.
  Step Begin();
  Step RejectFrame(absl::Status why);

  const std::string_view peer_;
  TcpInbox inbox_;
  FixedQueue<Receive> receives_;
  FrameHeader header_;      // of the frame that began last
  bool is_within_ = false;  // bytes of that frame are still to come
  absl::Status error_;
  std::array<char, kTcpMaxReason> reason_{};
};

}  // namespace remora::rdma
