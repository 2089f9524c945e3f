// Reads the commands of a Redis client from bytes that come in pieces of any size.
//
//   *2\r\n $3\r\n GET\r\n $3\r\n key\r\n      an array of bulk strings
//   GET "a key"\r\n                          an inline command, as a person types it
//
// (The blanks of the first line are not there.) It knows no store and no socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/kvgate/resp/request.h"

namespace remora::kvgate {

/// Outcome of RequestParser::Parse.
enum class Parsed : std::uint8_t {
  kNeedsMore = 1,  // all input was taken, and the command is not complete
  kCommand = 2,    // the request has a command
  kOversized = 3,  // a command was taken whose arguments exceed kMaxRequestBytes; the request is empty
  kError = 4,      // the input breaks the protocol (error()); the connection has to end
};

/// Parser of one connection.
///
/// Bounds: the memory of a request grows with the bytes that have come, never with a length that they state.
/// A command has at most kMaxArguments arguments, and kMaxRequestBytes bytes of arguments. The parser skips a
/// larger command as it comes, without a copy. A line has at most kMaxLine bytes.
///
/// Thread safety: none.
class RequestParser {
 public:
  static constexpr std::size_t kMaxArguments = std::size_t{1} << 20;
  static constexpr std::size_t kMaxLine = std::size_t{64} << 10;
  /// Largest length that a bulk string may state, as in Redis (proto-max-bulk-len).
  static constexpr std::int64_t kMaxStatedLength = std::int64_t{512} << 20;
  /// Bounds for a client that has not authenticated itself, as in Redis.
  static constexpr std::int64_t kMaxArgumentsOfStranger = 10;
  static constexpr std::int64_t kMaxLengthOfStranger = 16384;

  /// `max_bytes`: bound of the arguments of one command together.
  explicit RequestParser(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Takes bytes from the front of *input, up to the end of one command. `request` is the same object, and
  /// otherwise unchanged, in all calls up to that end; the first of them clears it. After kError, every call
  /// returns kError and takes nothing.
  Parsed Parse(std::string_view* input, Request* request);

  /// Sets whether the bounds for a client that has not authenticated itself apply. They do not at first.
  void set_is_stranger(bool is_stranger) { is_stranger_ = is_stranger; }

  /// Returns what is wrong, as Redis words it. REQUIRES: Parse returned kError.
  const std::string& error() const { return error_; }
  /// Returns whether a command has begun and is not complete.
  bool is_within_command() const { return state_ != State::kBegin; }

 private:
  enum class State : std::uint8_t { kBegin, kInline, kCount, kLength, kBytes, kBytesEnd, kFailed };

  // Each takes what it can from *input. kNeedsMore also means that the state has changed.
  Parsed TakeInline(std::string_view* input, Request* request);
  Parsed TakeCount(std::string_view* input);
  Parsed TakeLength(std::string_view* input, const Request& request);
  void TakeBytes(std::string_view* input, Request* request);
  Parsed TakeBytesEnd(std::string_view* input, Request* request);

  /// Takes a line that ends with `end` and `behind` more bytes. Returns whether line_ has all of it, without
  /// its end. *is_too_long: it has more than kMaxLine bytes.
  bool TakeLine(std::string_view* input, char end, std::size_t behind, bool* is_too_long);
  Parsed Fail(std::string error);
  /// Ends a command.
  Parsed Complete(Request* request);

  const std::size_t max_bytes_;
  State state_ = State::kBegin;
  std::string line_;           // kInline, kCount, kLength: its part that has come
  std::size_t skip_ = 0;       // of an end of line or argument, bytes that are to come
  bool line_ended_ = false;    // line_ is complete, but for skip_
  std::size_t arguments_ = 0;  // yet to come
  std::size_t length_ = 0;     // of the argument's bytes yet to come
  bool is_oversized_ = false;
  bool is_stranger_ = false;
  std::string error_;
};

/// Splits an inline command into arguments. Blanks separate them; "..." may have \n, \r, \t, \b, \a, \xHH
/// and \ before any character; '...' may have \'. Returns false if a quote is not closed, or is followed by
/// something other than a blank.
bool SplitInline(std::string_view line, Request* request);

}  // namespace remora::kvgate
