// Frames that come over a connection, as either end takes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "rdma/requests.h"
#include "rdma/tcp/inbox.h"
#include "rdma/tcp/wire.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// Takes frames in the order of the stream. It does all of a MESSAGE and of an END, and gives every other
/// frame to its user, which knows its own regions and requests:
///
/// Thread Safety: none.
class TcpFrameReader {
 public:
  enum class Step : std::uint8_t {
    kFrame = 1,  // header() is of a frame for the user: Expect comes next, or the end of the connection
    kWhole,      // the frame of header() is whole, and its payload in its place
    kMessage,    // a message filled a receive: TakeMessage
    kNothing,    // more bytes are wanted
    kParked,     // the next frame is a message, and there is no receive
    kRefused,    // the frame breaks the rules: error() says why
    kEnded,      // the peer has given up the connection: error() says why
  };

  /// `peer`: "the server" or "the client", for errors.
  TcpFrameReader(std::uint32_t receives, std::string_view peer);

  /// The stream: fills it, and begins and ends turns.
  TcpInbox& inbox() { return inbox_; }
  const TcpInbox& inbox() const { return inbox_; }

  /// Looks at what comes next in the inbox.
  Step Advance();
  const FrameHeader& header() const { return header_; }
  /// Takes the frame of header(), and puts its payload, of as many bytes as `to` has, there. REQUIRES:
  /// Advance returned kFrame; to.size() <= kMaxSges.
  void Expect(std::span<const Sge> to);
  /// Returns whether bytes of a WRITE are still to come. They go to where Expect said, so its user asks, and
  /// gives up the connection, if they may not go there any more.
  bool is_within_write() const { return is_within_ && header_.kind == FrameKind::kWrite; }
  const absl::Status& error() const { return error_; }
  /// The error of a frame that its user does not know.
  absl::Status UnknownFrame() const;

  /// REQUIRES: fewer than `receives` are posted.
  void PostReceive(std::uint64_t context, const Sge& into) { receives_.push({context, into}); }
  /// The completion of the receive that was filled. REQUIRES: Advance returned kMessage.
  Completion TakeMessage(Connection* connection);
  /// Drops the next receive, which nothing will fill, into `context`. False: there is none.
  bool DropReceive(std::uint64_t* context);

  /// Whether the header of a frame waits that was not begun. REQUIRES: within a turn.
  bool has_frame() { return !is_within_ && inbox_.Next() != nullptr; }

 private:
  struct Receive {
    std::uint64_t context = 0;
    Sge into;
  };

  /// kNothing: it is begun.
  Step Begin();
  Step Refuse(absl::Status why);

  const std::string_view peer_;
  TcpInbox inbox_;
  FixedQueue<Receive> receives_;
  FrameHeader header_;      // of the frame that was begun last
  bool is_within_ = false;  // it is not whole
  absl::Status error_;
  std::array<char, kTcpMaxReason> reason_{};
};

}  // namespace remora::rdma
