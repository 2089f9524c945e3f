// Both directions of a connection's socket: requests in, replies out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/kvgate/network/channel.h"
#include "tools/kvgate/resp/reply.h"
#include "tools/kvgate/resp/request.h"
#include "tools/kvgate/resp/request_parser.h"

namespace remora::kvgate {

/// Input of a socket that is not parsed yet: at most the rest of one read.
///
/// Thread safety: none.
class RequestStream {
 public:
  /// `max_bytes`: as for RequestParser.
  explicit RequestStream(std::size_t max_bytes) : parser_(max_bytes) {}

  /// Reads once what the socket has. Returns false if the socket failed.
  bool Receive(Channel& channel);
  /// Parses, as RequestParser does. kNeedsMore: all input is parsed.
  Parsed Next(Request* request);
  /// Returns whether the client sends no more.
  bool has_ended() const { return has_ended_; }
  const std::string& error() const { return parser_.error(); }
  void set_is_stranger(bool is_stranger) { parser_.set_is_stranger(is_stranger); }

 private:
  RequestParser parser_;
  std::string input_;
  std::size_t taken_ = 0;  // of input_
  std::size_t next_read_ = std::size_t{16} << 10;
  bool has_ended_ = false;
};

/// Replies that the socket has not taken yet.
///
/// Thread safety: none.
class ReplyStream {
 public:
  /// Adds the bytes of a reply, and takes the memory of a large one.
  void Add(Reply& reply);
  /// Sends what the socket takes. Returns false if the socket failed.
  bool Send(Channel& channel);
  std::size_t size() const { return output_.size() - sent_; }

 private:
  std::string output_;
  std::size_t sent_ = 0;  // of output_
};

}  // namespace remora::kvgate
