// Peers over tcp:// that break its rules: each hurts its own connection and nothing else.
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/stream/wire.h"
#include "tests/unit/rdma/raw_tcp.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

using ::testing::HasSubstr;

class TcpHostileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto service = ServiceThread::Start(
        {.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""}, {}, clock_);
    ASSERT_THAT(service, IsOk());
    service_ = *std::move(service);
    witness_ = Open();
  }
  std::unique_ptr<Client> Open() {
    auto client = Client::Open(service_->address(), clock_);
    EXPECT_THAT(client, IsOk());
    return client.ok() ? *std::move(client) : nullptr;
  }
  RawTcp Raw() { return RawTcp(service_->address()); }
  /// An old client and a new one are served.
  void ExpectUnharmed() {
    const std::string message = CommandText(ServiceOp::kEcho, 7);
    EXPECT_EQ(witness_->Call(message).value_or(""), message);
    EXPECT_EQ(witness_->Read(3, {40}).value_or(""), RegionText(3, 40));
    EXPECT_EQ(Open()->Call(message).value_or(""), message);
  }
  /// Returns the lines for the server's log about rejected clients, once there are so many.
  std::vector<std::string> Rejections(std::size_t count) {
    std::vector<std::string> lines;
    EXPECT_TRUE(service_->Await([&](Service& service) {
      lines = service.rejections();
      return lines.size() >= count;
    }));
    return lines;
  }
  std::uint64_t Disconnects() {
    std::uint64_t count = 0;
    service_->Do([&](Service& service) { count = service.disconnects(); });
    return count;
  }
  /// The service ends the connection of a client that says these bytes behind its handshake; the END that it
  /// says first.
  std::string SayAndBreak(const std::string& bytes) {
    const std::uint64_t before = Disconnects();
    RawTcp raw = Raw();
    raw.Join();
    raw.Say(bytes.data(), bytes.size());
    FrameHeader end;
    std::string why;
    if (raw.Hear(&end) && end.kind == FrameKind::kEnd) why = raw.Hear(end.size);
    EXPECT_TRUE(raw.IsHungUpOn());
    EXPECT_TRUE(service_->Await([&](Service& service) { return service.disconnects() > before; }));
    return why;
  }
  static std::string TextOf(const FrameHeader& header, const std::string& payload = "") {
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + payload;
  }
  static std::ptrdiff_t DescriptorCount() {
    const std::filesystem::directory_iterator descriptors("/proc/self/fd");
    return std::distance(begin(descriptors), end(descriptors));
  }

  const SteadyClock clock_ = {};
  std::unique_ptr<ServiceThread> service_;
  std::unique_ptr<Client> witness_;
};

// --- The handshake ---------------------------------------------------------------------------------

TEST_F(TcpHostileTest, NonsenseIsHungUpOn) {
  TcpHello stranger, boaster;
  stranger.magic = 77;
  boaster.data_size = kMaxConnectData + 1;
  const std::string request = "GET / HTTP/1.1\r\nHost: remora\r\n\r\n";
  for (const std::string& text : {std::string(reinterpret_cast<const char*>(&stranger), sizeof(stranger)),
                                  std::string(reinterpret_cast<const char*>(&boaster), sizeof(boaster)),
                                  request, std::string(1000, '\0')}) {
    RawTcp raw = Raw();
    raw.Say(text.data(), text.size());
    EXPECT_TRUE(raw.IsHungUpOn());
  }
  EXPECT_THAT(Rejections(4), testing::ElementsAre(HasSubstr("no hello of a Remora client"),
                                                  HasSubstr("its hello announces 57 bytes"),
                                                  HasSubstr("no hello of a Remora client"),
                                                  HasSubstr("no hello of a Remora client")));
  ExpectUnharmed();
}

TEST_F(TcpHostileTest, AnotherVersionIsToldWhichThisIs) {
  RawTcp raw = Raw();
  TcpHello hello;
  hello.version = kTcpVersion + 1;
  raw.Say(hello);
  TcpReply reply{};
  ASSERT_TRUE(raw.Hear(&reply));
  EXPECT_EQ(reply.answer, TcpAnswer::kWrongVersion);
  EXPECT_EQ(reply.version, kTcpVersion);
  EXPECT_TRUE(raw.IsHungUpOn());
  EXPECT_THAT(
      Rejections(1),
      testing::ElementsAre(HasSubstr(absl::StrCat("its version of the TCP protocol is ", kTcpVersion + 1))));
  ExpectUnharmed();
}

// One byte at a time, as over a path with tiny packets.
TEST_F(TcpHostileTest, AHelloAndFramesInPiecesAreAsGoodAsWhole) {
  RawTcp raw = Raw();
  TcpHello hello;
  hello.data_size = 1;
  hello.data[0] = std::byte{static_cast<unsigned char>(ServiceMode::kServe)};
  const auto dribble = [&](const std::string& text) {
    for (const char& byte : text) {
      raw.Say(&byte, 1);
      std::this_thread::yield();
    }
  };
  dribble(std::string(reinterpret_cast<const char*>(&hello), sizeof(hello)));
  TcpReply reply{};
  ASSERT_TRUE(raw.Hear(&reply));
  ASSERT_EQ(reply.answer, TcpAnswer::kAccepted);
  std::memcpy(&raw.welcome, reply.data, sizeof(raw.welcome));
  const std::string message = CommandText(ServiceOp::kHashStaging, 10, 9);
  dribble(TextOf({.kind = FrameKind::kWrite,
                  .size = 9,
                  .key = raw.welcome.staging.key,
                  .offset = raw.welcome.staging.address + 10},
                 "dribbling") +
          TextOf({.kind = FrameKind::kMessage, .size = static_cast<std::uint32_t>(message.size())}, message) +
          TextOf({.kind = FrameKind::kRead, .size = 33, .key = raw.welcome.region.key, .offset = 5}));
  // The server thread and the NIC thread answer, in any order.
  std::string hash, bytes;
  for (int i = 0; i < 2; ++i) {
    FrameHeader header;
    ASSERT_TRUE(raw.Hear(&header));
    (header.kind == FrameKind::kMessage ? hash : bytes) = raw.Hear(header.size);
  }
  EXPECT_EQ(NumberIn(hash), HashOf(BytesOf("dribbling")));
  EXPECT_EQ(bytes, RegionText(5, 33));
}

TEST_F(TcpHostileTest, SilentClientsGiveWay) {
  std::vector<RawTcp> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(Raw());
  ExpectUnharmed();
  const std::uint64_t half = 0x1234;
  for (RawTcp& raw : silent) raw.Say(&half, 3);
  ExpectUnharmed();
  EXPECT_TRUE(silent.front().IsHungUpOn());
}

// --- Frames ----------------------------------------------------------------------------------------

TEST_F(TcpHostileTest, EveryFieldOfAHeaderIsChecked) {
  const Welcome welcome = witness_->welcome();
  const std::uint32_t region = welcome.region.key, staging = welcome.staging.key;
  const std::uint64_t end = welcome.region.size;
  const std::uint64_t staging_begin = welcome.staging.address,
                      staging_end = staging_begin + welcome.staging.size;
  const auto read = [](std::uint32_t key, std::uint64_t offset, std::uint32_t size) {
    return FrameHeader{.kind = FrameKind::kRead, .size = size, .key = key, .offset = offset};
  };
  const auto write = [](std::uint32_t key, std::uint64_t offset, std::uint32_t size) {
    return FrameHeader{.kind = FrameKind::kWrite, .size = size, .key = key, .offset = offset};
  };
  std::vector<std::pair<FrameHeader, const char*>> frames;
  for (const FrameHeader& header :
       {read(region, end, 1), read(region, end - 8, 9), read(region, end + 1, 0),
        read(region, ~std::uint64_t{0}, 1), read(region, ~std::uint64_t{0} - 7, 16),
        read(region, 0, ~std::uint32_t{0}), read(region, 0, (1 << 30) + 1), read(0, 0, 1),
        read(region + 1, 0, 1), read(~std::uint32_t{0}, 0, 1)}) {
    frames.emplace_back(header, "READ: outside");
  }
  for (const FrameHeader& header :
       {write(region, 0, 1), write(staging, staging_end, 1), write(staging, staging_end - 3, 4),
        write(staging, ~std::uint64_t{0}, 8), write(staging, staging_begin, ~std::uint32_t{0}),
        write(staging, staging_begin - 1, 1), write(staging + 1, staging_begin, 1), write(0, 0, 1)}) {
    frames.emplace_back(header, "WRITE: outside");
  }
  frames.emplace_back(FrameHeader{.kind = FrameKind::kMessage, .size = kMaxMessageSize + 1},
                      "the longest is");
  frames.emplace_back(FrameHeader{.kind = FrameKind::kMessage, .size = ~std::uint32_t{0}}, "the longest is");
  frames.emplace_back(FrameHeader{.kind = FrameKind::kEnd, .size = kTcpMaxReason + 1},
                      "which no client sends");
  frames.emplace_back(FrameHeader{.kind = FrameKind::kReadAnswer, .size = 8}, "which no client sends");
  for (const int kind : {0, 7, 8, 100, 255}) {
    frames.emplace_back(FrameHeader{.kind = static_cast<FrameKind>(kind), .size = 8},
                        "which no client sends");
  }
  for (std::size_t at : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{12}, std::size_t{15}}) {
    FrameHeader header = read(region, 0, 8);
    reinterpret_cast<unsigned char*>(&header)[at] = 1;
    frames.emplace_back(header, "must be zero");
  }
  for (const auto& [header, why] : frames) {
    EXPECT_THAT(SayAndBreak(TextOf(header, std::string(64, 'x'))), HasSubstr(why))
        << "kind " << static_cast<int>(header.kind) << " size " << header.size << " key " << header.key
        << " offset " << header.offset;
  }
  ExpectUnharmed();
  EXPECT_EQ(witness_->Read(0, {4096}).value_or(""), RegionText(0, 4096));
}

// The frames before a bad one are done, and none behind it, even if they are in flight.
TEST_F(TcpHostileTest, FramesBehindABadOneAreNotTaken) {
  RawTcp raw = Raw();
  raw.Join();
  const RemoteRegion staging = raw.welcome.staging;
  const std::string bytes =
      TextOf({.kind = FrameKind::kRead, .size = 10, .key = raw.welcome.region.key, .offset = 1}) +
      TextOf({.kind = FrameKind::kWrite, .size = 4, .key = staging.key + 1, .offset = staging.address},
             "evil") +
      TextOf({.kind = FrameKind::kRead, .size = 10, .key = raw.welcome.region.key, .offset = 1});
  raw.Say(bytes.data(), bytes.size());
  FrameHeader header;
  bool has_end = false;
  int answers = 0;
  while (raw.Hear(&header)) {
    EXPECT_FALSE(has_end);
    answers += header.kind == FrameKind::kReadAnswer;
    has_end |= header.kind == FrameKind::kEnd;
    raw.Hear(header.size);
  }
  EXPECT_TRUE(has_end);
  EXPECT_LE(answers, 1);
  ExpectUnharmed();
}

TEST_F(TcpHostileTest, RandomBytesEndOneConnection) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t before = Disconnects();
    RawTcp raw = Raw();
    raw.Join();
    std::string bytes(1 + random() % 3000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % (round % 2 == 0 ? 256 : 6));
    raw.Say(bytes.data(), bytes.size());
    if (round % 3 != 0) shutdown(raw.socket(), SHUT_WR);
    raw.Close();
    EXPECT_TRUE(service_->Await([&](Service& service) { return service.disconnects() > before; }));
  }
  ExpectUnharmed();
}

// --- Peers that stop ---------------------------------------------------------------------------------

TEST_F(TcpHostileTest, APeerThatStopsInTheMiddleOfAFrameKeepsNobodyWaiting) {
  std::vector<RawTcp> stopped;
  for (const FrameKind kind : {FrameKind::kWrite, FrameKind::kMessage, FrameKind::kRead, FrameKind::kEnd}) {
    RawTcp& raw = stopped.emplace_back(Raw());
    raw.Join();
    const RemoteRegion& staging = raw.welcome.staging;
    std::string text =
        TextOf({.kind = kind, .size = 100, .key = staging.key, .offset = staging.address}, "begun");
    if (kind == FrameKind::kRead) text.resize(sizeof(FrameHeader) - 1);
    raw.Say(text.data(), text.size());
  }
  for (int i = 0; i < 5; ++i) ExpectUnharmed();
  const std::uint64_t before = Disconnects();
  stopped.clear();
  EXPECT_TRUE(service_->Await([&](Service& service) { return service.disconnects() >= before + 4; }));
}

// It asks for gigabytes and takes nothing. Nothing of that is held in the server.
TEST_F(TcpHostileTest, APeerThatNeverReadsIsBounded) {
  std::vector<RawTcp> silent;
  std::string reads;
  for (int i = 0; i < 1000; ++i) {
    reads += TextOf({.kind = FrameKind::kRead, .size = 1 << 20, .key = witness_->welcome().region.key});
  }
  for (int i = 0; i < 8; ++i) {
    silent.push_back(Raw());
    silent.back().Join();
    static_cast<void>(send(silent.back().socket(), reads.data(), reads.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  for (int i = 0; i < 20; ++i) ExpectUnharmed();
  const std::uint64_t before = Disconnects();
  silent.clear();
  EXPECT_TRUE(service_->Await([&](Service& service) { return service.disconnects() >= before + 8; }));
}

// Its READs wait for each other, in the server's inbox and before it, and none is forgotten there.
TEST_F(TcpHostileTest, APeerThatReadsLateGetsAllThatItAskedFor) {
  constexpr int kReads = 1000;
  constexpr std::uint32_t kSize = 64 << 10;
  RawTcp raw = Raw();
  raw.Join();
  std::string reads;
  for (std::uint64_t i = 0; i < kReads; ++i) {
    reads += TextOf({.kind = FrameKind::kRead, .size = kSize, .key = raw.welcome.region.key, .offset = i});
  }
  raw.Say(reads.data(), reads.size());
  ExpectUnharmed();
  for (std::uint64_t i = 0; i < kReads; ++i) {
    FrameHeader header;
    ASSERT_TRUE(raw.Hear(&header)) << i;
    ASSERT_EQ(header.kind, FrameKind::kReadAnswer);
    ASSERT_EQ(header.size, kSize);
    ASSERT_TRUE(raw.Hear(kSize) == RegionText(i, kSize)) << i;
  }
}

// A message that nobody has a receive for is not read; nor is what is behind it.
TEST_F(TcpHostileTest, AFloodOfMessagesIsBounded) {
  RawTcp raw = Raw();
  raw.Join();
  const std::string message = CommandText(ServiceOp::kEcho, 1);
  std::string flood;
  for (int i = 0; i < 2000; ++i) {
    flood +=
        TextOf({.kind = FrameKind::kMessage, .size = static_cast<std::uint32_t>(message.size())}, message);
  }
  // The service's answers go nowhere; it must not run out of places to send from, so it is asked to close.
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(send(raw.socket(), flood.data(), flood.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    ExpectUnharmed();
  }
}

TEST_F(TcpHostileTest, NothingIsLeftOfBrokenConnections) {
  const auto break_some = [&](int count) {
    for (int i = 0; i < count; ++i) {
      SayAndBreak(TextOf({.kind = static_cast<FrameKind>(77), .size = 8}));
    }
    for (int i = 0; i < count; ++i) Raw();
    ExpectUnharmed();
  };
  break_some(3);
  const auto rests = [&] {
    std::ptrdiff_t last = -1, now = DescriptorCount();
    for (int i = 0; i < 500 && (now != last || i < 20); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      last = std::exchange(now, DescriptorCount());
    }
    return now;
  };
  const std::ptrdiff_t before = rests();
  break_some(100);
  // The service's threads, which may have no CPU just now, close the others by and by.
  for (int i = 0; i < 6000 && DescriptorCount() > before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(DescriptorCount(), before);
}

}  // namespace
}  // namespace remora::rdma
