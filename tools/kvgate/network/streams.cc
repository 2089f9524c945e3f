#include "tools/kvgate/network/streams.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace remora::kvgate {
namespace {

constexpr std::size_t kReadSize = std::size_t{16} << 10;
// After a read that was full: a large value is in flight.
constexpr std::size_t kLargeReadSize = std::size_t{256} << 10;
// An empty output that has held more gives its memory back.
constexpr std::size_t kKeptOutput = std::size_t{64} << 10;
// A smaller reply is copied, and so keeps its memory.
constexpr std::size_t kLeastTaken = std::size_t{4} << 10;

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

bool RequestStream::Receive(Channel& channel) {
  input_.erase(0, std::exchange(taken_, 0));
  const std::size_t held = input_.size();
  if (held == 0 && next_read_ == kReadSize && input_.capacity() > kLargeReadSize / 2) input_ = {};
  input_.resize(held + next_read_);
  ssize_t got = 0;
  do {
    got = channel.Receive(std::span(input_).subspan(held, next_read_));
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  input_.resize(held + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  next_read_ = got == static_cast<ssize_t>(next_read_) ? kLargeReadSize : kReadSize;
  // The client may still wait for the replies to what it has sent.
  if (got == 0) has_ended_ = true;
  return got >= 0 || WouldBlock(error);
}

Parsed RequestStream::Next(Request* request) {
  std::string_view rest = std::string_view(input_).substr(taken_);
  const std::size_t before = rest.size();
  const Parsed parsed = parser_.Parse(&rest, request);
  taken_ += before - rest.size();
  return parsed;
}

void ReplyStream::Add(Reply& reply) {
  if (output_.empty() && reply.size() > kLeastTaken) {
    reply.MoveBytes(&output_);
  } else {
    output_ += reply.bytes();
  }
}

bool ReplyStream::Send(Channel& channel) {
  while (sent_ < output_.size()) {
    const ssize_t sent = channel.Send(std::string_view(output_).substr(sent_));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && !WouldBlock(errno)) return false;
    if (sent < 0) {
      // The part that was sent goes when it is the larger one, so that each byte moves at most once.
      if (sent_ > output_.size() / 2) output_.erase(0, std::exchange(sent_, 0));
      return true;
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  sent_ = 0;
  output_.clear();
  if (output_.capacity() > kKeptOutput) output_ = {};
  return channel.Flush();
}

}  // namespace remora::kvgate
