// Replies in the forms of RESP2 and RESP3, the two versions of Redis's protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace remora::kvgate {

/// Bytes of one reply, which its caller appends in order: Array(2) is followed by two values. A type that
/// RESP2 lacks has the form that Redis gives it there.
///
/// Thread safety: none.
class Reply {
 public:
  /// `protocol`: 2 or 3.
  explicit Reply(int protocol) : protocol_(protocol) {}

  int protocol() const { return protocol_; }
  void set_protocol(int protocol) { protocol_ = protocol; }

  void Simple(std::string_view text);
  void Ok() { Simple("OK"); }
  /// Adds an error. Its first word is its kind ("ERR"). CR and LF become blanks.
  void Error(std::string_view text);
  void Integer(std::int64_t number);
  void Bulk(std::string_view bytes);
  /// Adds a text for people: "txt" of RESP3.
  void Verbatim(std::string_view text);
  void Null();
  /// Adds what Redis has in the place of an array that does not exist.
  void NullArray();
  void Array(std::size_t size);
  /// Adds the head of `size` pairs.
  void Map(std::size_t size);
  void Set(std::size_t size);
  /// Adds the head of a message of its own, which is no reply: of `size` values.
  void Push(std::size_t size);
  /// Adds replies that are complete.
  void Append(const Reply& replies) { bytes_ += replies.bytes_; }

  std::size_t size() const { return bytes_.size(); }
  /// Returns how many bytes it has memory for.
  std::size_t memory() const { return bytes_.capacity(); }
  const std::string& bytes() const { return bytes_; }
  /// Moves the bytes to *to, which is empty.
  void MoveBytes(std::string* to) { bytes_.swap(*to); }
  void Clear() { bytes_.clear(); }

 private:
  void Head(char type, std::int64_t number);

  int protocol_;
  std::string bytes_;
};

}  // namespace remora::kvgate
