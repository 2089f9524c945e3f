#include "tests/adversarial/tcp_attacks.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/adversarial/raw_tcp.h"

namespace remora {
namespace {

using rdma::FrameHeader;
using rdma::FrameKind;

constexpr std::chrono::milliseconds kMoment{5};

// A header, a WRITE and a message that never become whole.
void StopInMidFrame(const rdma::Address& where) {
  for (const std::size_t size : {std::size_t{1}, sizeof(FrameHeader) - 1, sizeof(FrameHeader) + 10}) {
    RawTcp peer(where, true);
    if (!peer.Join(HelloRequest())) return;
    const RemoteRegion staging = peer.hello().staging;
    const FrameHeader header{
        .kind = FrameKind::kWrite, .size = 1000, .key = staging.key, .offset = staging.address};
    std::string frame(reinterpret_cast<const char*>(&header), sizeof(header));
    frame.append(1000, 'h');
    peer.Say(frame.data(), size);
    std::this_thread::sleep_for(kMoment);
  }
}

// One peer for each: all of these end the connection.
void BreakFrames(const rdma::Address& where) {
  const auto forge = [&](auto&& make) {
    RawTcp peer(where, true);
    if (!peer.Join(HelloRequest())) return;
    const FrameHeader header = make(peer.hello());
    peer.Say(&header, sizeof(header));
    peer.AwaitEnd();
  };
  using Hello = const HelloReply&;
  forge([](Hello) { return FrameHeader{.kind = FrameKind{99}}; });
  forge([](Hello) { return FrameHeader{.kind = FrameKind::kMessage, .size = ~0u}; });
  forge([](Hello) { return FrameHeader{.kind = FrameKind::kReadAnswer, .size = 8}; });
  forge([](Hello hello) {
    return FrameHeader{
        .kind = FrameKind::kWrite, .size = 8, .key = hello.memory.key, .offset = hello.memory.address};
  });
  forge([](Hello hello) {
    return FrameHeader{
        .kind = FrameKind::kWrite, .size = ~0u, .key = hello.staging.key, .offset = hello.staging.address};
  });
}

void ReadOutsideOfTheRegion(const rdma::Address& where) {
  const auto read = [&](FrameKind kind, std::uint32_t size, std::uint32_t wrong_key, auto&& offset) {
    RawTcp peer(where, true);
    if (!peer.Join(HelloRequest())) return;
    const RemoteRegion memory = peer.hello().memory;
    const FrameHeader header{.kind = kind,
                             .size = size,
                             .key = memory.key ^ wrong_key,
                             .match = kind == FrameKind::kFind ? 1u : 0u,
                             .offset = offset(memory)};
    peer.Say(&header, sizeof(header));
    peer.AwaitEnd();
  };
  const auto begin = [](const RemoteRegion& memory) { return memory.address; };
  const auto before = [](const RemoteRegion& memory) { return memory.address - 8; };
  const auto at_end = [](const RemoteRegion& memory) { return memory.address + memory.size - 8; };
  const auto around = [](const RemoteRegion&) { return ~std::uint64_t{0} - 7; };
  read(FrameKind::kRead, 64, 0, before);
  read(FrameKind::kRead, 64, 0, at_end);
  read(FrameKind::kRead, 64, 0, around);
  read(FrameKind::kRead, 64, 0x80, begin);
  read(FrameKind::kFind, 64, 0, at_end);
}

/// Asks for `count` READs of `size` bytes, as far as the server takes them at once.
void AskToRead(RawTcp& peer, int count, std::uint32_t size) {
  const RemoteRegion memory = peer.hello().memory;
  const FrameHeader header{
      .kind = FrameKind::kRead, .size = size, .key = memory.key, .offset = memory.address};
  for (int i = 0; i < count && peer.SayAtOnce(&header, sizeof(header)); ++i) {
  }
}

// Megabytes of answers, of which it takes none.
void ReadAndTakeNothing(const rdma::Address& where) {
  RawTcp peer(where, /*takes_replies=*/false);
  if (!peer.Join(HelloRequest())) return;
  AskToRead(peer, 100'000, 1 << 20);
  std::this_thread::sleep_for(kMoment);
}

// A byte at a time.
void TakeSlowly(const rdma::Address& where) {
  RawTcp peer(where, true);
  if (!peer.Join(HelloRequest())) return;
  AskToRead(peer, 8, 1 << 20);
  for (int i = 0; i < 100; ++i) {
    char byte = 0;
    if (!peer.Hear(&byte, 1, RawPeer::kPatience)) return;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Asks again as soon as the server has answered, so that the NIC thread has little time for other clients.
void ReadWithoutPause(const rdma::Address& where) {
  RawTcp peer(where, true);
  if (!peer.Join(HelloRequest())) return;
  std::string answers(64 * (sizeof(FrameHeader) + 64), '\0');
  for (int i = 0; i < 200; ++i) {
    AskToRead(peer, 64, 64);
    if (!peer.Hear(answers.data(), answers.size(), RawPeer::kPatience)) return;
  }
}

// The first bytes of a TLS client, and then nonsense in the form of records.
void SayTls(const rdma::Address& where) {
  for (int i = 0; i < 20; ++i) {
    RawTcp peer(where, true);
    std::string records("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
    records.append(501, 't');
    records.append("\x17\x03\x03\xff\xff", 5);
    records.append(2000, 'x');
    peer.Say(records.data(), records.size());
    peer.AwaitEnd();
  }
}

}  // namespace

std::vector<Attack> TcpAttacks() {
  return {{"half a frame", "connections_accepted", StopInMidFrame},
          {"broken frames", "connections_broken", BreakFrames},
          {"READs outside", "connections_broken", ReadOutsideOfTheRegion},
          {"takes no READs", "connections_accepted", ReadAndTakeNothing},
          {"takes READs slowly", "connections_accepted", TakeSlowly},
          {"READs without pause", "connections_accepted", ReadWithoutPause},
          {"TLS without a hello", "handshakes_dropped", SayTls}};
}

}  // namespace remora
