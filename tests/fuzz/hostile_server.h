// A server that says nothing but the harness's bytes: the client's end of a connection to it. It keeps the
// promises of a device (rdma/transport.h), and holds its client to the contract. That is: no READ or WRITE
// outside of the regions that the client was told of, and no buffer outside of the registered ones.
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rdma/transport.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"
#include "store/format/wire/messages.h"
#include "tests/fuzz/input.h"

namespace remora {

/// Stands still but for who sleeps, and as a harness lets it go on.
class FuzzClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  std::int64_t UnixMillis() const override {
    return std::chrono::floor<std::chrono::milliseconds>(now_.time_since_epoch()).count();
  }
  void Sleep(Duration duration) const override { now_ += duration; }

 private:
  mutable TimePoint now_{std::chrono::seconds(1'600'000'000)};
};

class HostileServer final : public rdma::ClientConnection {
 public:
  struct Script {
    HelloReply hello;
    /// Fills the bytes of a READ of [offset, offset + to.size()).
    std::function<void(std::uint64_t offset, std::span<std::byte> to)> read;
    /// Returns the answer to a message, if any; `window`: the memory that the client has offered to be
    /// written.
    std::function<std::string(std::string_view message, std::span<std::byte> window)> answer;
    /// It is gone when so many bytes were READ.
    std::size_t most_read = std::size_t{1} << 30;
  };
  /// Both outlive it.
  HostileServer(const Script& script, const FuzzClock& clock) : script_(script), clock_(clock) {}

  absl::StatusOr<std::unique_ptr<rdma::Registration>> RegisterMessages(std::span<std::byte> bytes) override {
    registered_.push_back(bytes);
    return std::make_unique<Registered>(bytes, RemoteRegion{});
  }
  absl::Status OfferWrite(rdma::SharedMemory& memory) override {
    window_ = memory.bytes();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<rdma::Registration>> RegisterWrite(rdma::SharedMemory& memory) override {
    return std::make_unique<Registered>(memory.bytes(), RemoteRegion{4096, memory.bytes().size(), 7});
  }
  absl::Status Connect(std::span<const std::byte> /*request_data*/, TimePoint /*deadline*/) override {
    return absl::OkStatus();
  }
  std::span<const std::byte> peer_data() const override { return AsBytes(script_.hello); }

  absl::Status PostReadv(std::uint64_t context, std::span<const rdma::Sge> to, const RemoteRegion& region,
                         std::uint64_t offset) override {
    FUZZ_CHECK(region == script_.hello.memory);
    FUZZ_CHECK(++posted_ < kMostPosted);
    for (const rdma::Sge& part : to) {
      read_ += part.size;
      if (read_ > script_.most_read) {
        status_ = absl::UnavailableError("it is gone");
        return status_;
      }
      FUZZ_CHECK(IsRegistered(part));
      FUZZ_CHECK(region.Contains(offset, part.size));
      script_.read(offset, {part.data, part.size});
      offset += part.size;
    }
    return Complete(context, rdma::CompletionKind::kRead, 0);
  }
  absl::Status PostWritev(std::span<const rdma::Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override {
    for (const rdma::Sge& part : from) {
      FUZZ_CHECK(IsRegistered(part) && region.Contains(offset, part.size));
      offset += part.size;
    }
    return absl::OkStatus();
  }
  absl::Status PostSend(std::uint64_t context, const rdma::Sge& from) override {
    FUZZ_CHECK(IsRegistered(from) && ++posted_ < kMostPosted);
    const std::string reply = script_.answer({reinterpret_cast<const char*>(from.data), from.size}, window_);
    if (!reply.empty() && !receives_.empty()) {
      const auto [receive, into] = receives_.front();
      receives_.pop_front();
      const std::size_t size = std::min<std::size_t>(reply.size(), into.size);
      std::memcpy(into.data, reply.data(), size);
      Complete(receive, rdma::CompletionKind::kReceive, static_cast<std::uint32_t>(size)).IgnoreError();
    }
    return Complete(context, rdma::CompletionKind::kSend, 0);
  }
  absl::Status PostRecv(std::uint64_t context, const rdma::Sge& into) override {
    FUZZ_CHECK(IsRegistered(into));
    receives_.emplace_back(context, into);
    return absl::OkStatus();
  }
  std::size_t Poll(std::span<rdma::Completion> out) override {
    std::size_t count = 0;
    for (; count < out.size() && !completions_.empty(); ++count) {
      out[count] = completions_.front();
      completions_.pop_front();
    }
    if (count == 0) clock_.Sleep(std::chrono::microseconds(100));  // a client that only polls gets on as well
    return count;
  }
  void Arm() override {}
  void Disarm() override {}
  absl::Status Wait(TimePoint deadline) override {
    if (!completions_.empty()) return absl::OkStatus();
    if (deadline > clock_.Now()) clock_.Sleep(deadline - clock_.Now());
    return absl::DeadlineExceededError("it says nothing more");
  }
  int wait_fd() const override {
    static const int readable = eventfd(1, EFD_CLOEXEC);
    return readable;
  }
  const absl::Status& status() const override { return status_; }
  std::string peer() const override { return "nobody"; }

 private:
  // More than any call takes; so that one which never ends is found.
  static constexpr int kMostPosted = 100'000;

  class Registered final : public rdma::Registration {
   public:
    Registered(std::span<std::byte> bytes, const RemoteRegion& remote) : Registration(bytes, 1, remote) {}
  };

  bool IsRegistered(const rdma::Sge& part) const {
    return std::ranges::any_of(registered_, [&](std::span<std::byte> bytes) {
      return part.data >= bytes.data() && part.data + part.size <= bytes.data() + bytes.size();
    });
  }
  absl::Status Complete(std::uint64_t context, rdma::CompletionKind kind, std::uint32_t byte_count) {
    completions_.push_back(
        {.connection = this, .context = context, .byte_count = byte_count, .kind = kind, .ok = true});
    return absl::OkStatus();
  }

  const Script& script_;
  const FuzzClock& clock_;
  std::vector<std::span<std::byte>> registered_;
  std::span<std::byte> window_;
  std::deque<std::pair<std::uint64_t, rdma::Sge>> receives_;
  std::deque<rdma::Completion> completions_;
  absl::Status status_;
  int posted_ = 0;
  std::size_t read_ = 0;
};

/// Returns the hello of an honest server of so much memory.
inline HelloReply HonestHello(std::uint64_t memory_size) {
  HelloReply hello;
  hello.credits = 8;
  hello.incarnation = 1;
  hello.server_ms = 1'600'000'000'000;
  hello.memory = {0, memory_size, 1};
  hello.staging = {4096, kMaxPayloadSize, 2};
  return hello;
}

inline Superblock HonestSuperblock(std::uint64_t memory_size) {
  Superblock superblock{};
  superblock.magic = kSuperblockMagic;
  superblock.format_version = kFormatVersion;
  superblock.grace_ms = 100;
  superblock.layout_signature = LayoutSignature();
  superblock.incarnation = 1;
  superblock.memory_size = memory_size;
  superblock.metric_count = kMetricPlaces;
  return superblock;
}

/// Bytes [offset, ...) of the input, repeated for ever: so that wherever a reader is led, there is something.
inline void ReadRepeated(std::string_view bytes, std::uint64_t offset, std::span<std::byte> to) {
  if (bytes.empty()) {
    std::ranges::fill(to, std::byte{0});
    return;
  }
  const std::size_t period = bytes.size();
  std::size_t done = 0;
  for (std::size_t at = offset % period; done < std::min(to.size(), period); at = 0) {
    const std::size_t size = std::min(to.size() - done, period - at);
    std::memcpy(to.data() + done, bytes.data() + at, size);
    done += size;
  }
  while (done < to.size()) {
    const std::size_t size = std::min(to.size() - done, done / period * period);
    std::memcpy(to.data() + done, to.data() + done % period, size);
    done += size;
  }
}

/// Copies what of `from`, which stands at `at`, is in [offset, offset + to.size()).
inline void ReadOver(std::span<const std::byte> from, std::uint64_t at, std::uint64_t offset,
                     std::span<std::byte> to) {
  const std::uint64_t begin = std::max(at, offset);
  const std::uint64_t end = std::min(at + from.size(), offset + to.size());
  if (begin < end) std::memcpy(to.data() + (begin - offset), from.data() + (begin - at), end - begin);
}

}  // namespace remora
