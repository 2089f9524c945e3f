// A client that speaks a transport's bytes itself, and keeps to none of its rules unless it is told to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rdma/address.h"
#include "store/format/wire/messages.h"

namespace remora {

/// A hostile client that makes each step of the protocol by itself.
///
/// Thread safety: none.
class RawPeer {
 public:
  enum class Answer {
    kAccepted,
    kRejected,  // with words: said() is what a HelloRejection is to be
    kHungUpOn,  // without a word
  };
  /// Receives that it posts, where the transport has them.
  static constexpr std::uint32_t kReceives = 32;
  /// For what is to come soon.
  static constexpr std::chrono::seconds kPatience{300};

  /// Connects to the server. It takes no messages where `takes_replies` is false.
  static std::unique_ptr<RawPeer> At(const rdma::Address& where, bool takes_replies = true);
  virtual ~RawPeer() = default;
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  /// Asks to be let in, with these bytes, up to rdma::kMaxConnectData of them, and waits for the answer.
  /// Once.
  virtual Answer Join(std::span<const std::byte> hello) = 0;
  /// Joins as a client does that keeps to the rules. False: it was not accepted.
  bool Join(const HelloRequest& hello = {});
  /// Returns the server's bytes when it accepted or rejected.
  virtual std::span<const std::byte> said() const = 0;
  /// REQUIRES: Join was accepted.
  const HelloReply& hello() const { return hello_; }

  /// WRITEs to its own staging buffer.
  virtual void Write(std::uint64_t offset, std::string_view bytes) = 0;
  /// Sends a message. False: there was no space for it within some seconds, or the connection has ended.
  virtual bool Send(std::span<const std::byte> message) = 0;
  /// The next message. Nothing: the connection has ended, or none came in time.
  virtual std::optional<std::string> Receive(std::chrono::milliseconds patience) = 0;
  std::optional<std::string> Receive() { return Receive(kPatience); }
  /// Waits until the server has ended the connection. False: it has not.
  virtual bool AwaitEnd(std::chrono::milliseconds patience) = 0;
  bool AwaitEnd() { return AwaitEnd(kPatience); }

  /// Sends a request, and takes the answer to it. Nothing: as Receive, or what came is no answer to it.
  struct Answered {
    Reply reply;
    std::string behind;
  };
  std::optional<Answered> Ask(const Request& request);
  /// Sets the checksum of a request with this payload at its offset of the staging buffer.
  static void Seal(Request* request, std::string_view key, std::string_view value);
  /// A put by the book.
  std::optional<Answered> Put(std::uint64_t id, std::string_view key, std::string_view value);

 protected:
  RawPeer() = default;
  HelloReply hello_{};
};

std::unique_ptr<RawPeer> MakeRawLocal(const rdma::Address& where, bool takes_replies);
std::unique_ptr<RawPeer> MakeRawTcp(const rdma::Address& where, bool takes_replies);
std::unique_ptr<RawPeer> MakeRawVerbs(const rdma::Address& where, bool takes_replies);

}  // namespace remora
