// Servers over tcp:// that break its rules: their client says so, and lets nothing happen to its memory.
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/rdma/raw_tcp.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

using ::testing::HasSubstr;

class TcpLiarTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto socket = ListenAtTcp({.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""});
    ASSERT_THAT(socket, IsOk());
    listening_ = std::move(socket->front());
    where_ = {.kind = TransportKind::kTcp,
              .host = "127.0.0.1",
              .port = LocalAddressOf(listening_.get()).port(),
              .path = ""};
  }
  RawTcp AcceptRaw() {
    pollfd fd = {listening_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&fd, 1, 60'000), 1);
    return RawTcp(UniqueFd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
  /// Returns the result of Connect to a server that answers a hello with these bytes, and hangs up.
  /// `hears`: it reads the hello, so that its end is no reset of the connection.
  absl::Status ConnectTo(const std::string& answer, bool hears = true) {
    std::jthread server([&] {
      RawTcp raw = AcceptRaw();
      TcpHello hello;
      std::byte first;
      if (hears) {
        raw.Hear(&hello);
      } else {
        raw.Hear(&first);
      }
      raw.Say(answer.data(), answer.size());
    });
    const TimePoint deadline = clock_.Now() + kPatience;
    auto connection = Dial(where_, {}, clock_, deadline);
    return (*connection)->Connect({}, deadline);
  }
  /// The failure of a client that has posted a READ of 16 bytes, or a FIND, and is sent these bytes.
  absl::Status FailureOf(const std::string& bytes, bool finds = false) {
    std::jthread server([&] {
      RawTcp raw = AcceptRaw();
      TcpHello hello;
      raw.Hear(&hello);
      raw.Say(TcpReply{});
      FrameHeader read;
      EXPECT_TRUE(raw.Hear(&read));
      raw.Say(bytes.data(), bytes.size());
      EXPECT_TRUE(raw.IsHungUpOn());
    });
    const TimePoint deadline = clock_.Now() + kPatience;
    auto connection = Dial(where_, {}, clock_, deadline);
    std::array<std::byte, 512> into{};
    const auto registration = (*connection)->RegisterMessages(into);
    EXPECT_THAT((*connection)->Connect({}, deadline), IsOk());
    const Sge to = MakeSge(**registration, 0, finds ? 256 : 16), record = MakeSge(**registration, 256, 64);
    FoundRecord found;
    EXPECT_THAT(finds ? (*connection)->PostFind(1, to, record, {.size = 1024, .key = 1}, 0, 7, &found)
                      : (*connection)->PostReadv(1, {&to, 1}, {.size = 100, .key = 1}, 0),
                IsOk());
    AdaptivePoller spinner;
    std::array<Completion, 4> completions;
    EXPECT_THAT(PollUntil(**connection, completions, deadline, spinner), IsOk());
    EXPECT_FALSE(completions[0].ok);
    return (*connection)->status();
  }
  template <typename T>
  static std::string TextOf(const T& what, const std::string& behind = "") {
    return std::string(reinterpret_cast<const char*>(&what), sizeof(what)) + behind;
  }

  const SteadyClock clock_ = {};
  UniqueFd listening_;
  Address where_;
};

TEST_F(TcpLiarTest, TheErrorTellsAForeignServer) {
  TcpReply stranger, newer, older, large, odd;
  stranger.magic = 1;
  newer.version = 9;
  older.version = 1;
  older.answer = TcpAnswer::kWrongVersion;
  large.data_size = kMaxAcceptData + 1;
  odd.answer = static_cast<TcpAnswer>(77);
  for (const auto& [answer, why] :
       {std::pair<std::string, const char*>("", "hung up"),
        {"SSH-2.0-OpenSSH_9.2p1\r\n", "is no Remora server"},
        {TextOf(stranger), "is no Remora server"},
        {TextOf(newer), "speaks version 9"},
        {TextOf(older), "speaks version 1"},
        {TextOf(newer).substr(0, 12), "speaks version 9"},
        {TextOf(TcpReply{}).substr(0, 100), "hung up"},
        {TextOf(TcpReply{.answer = TcpAnswer::kNoSpace}), "no descriptor left"}}) {
    const absl::Status status = ConnectTo(answer);
    EXPECT_THAT(status, HasCode(absl::StatusCode::kUnavailable));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  const absl::Status reset = ConnectTo("", false);
  EXPECT_THAT(reset, HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(reset.message()), HasSubstr("hung up"));
  EXPECT_THAT(ConnectTo(TextOf(large)), HasCode(absl::StatusCode::kInternal));
  EXPECT_THAT(ConnectTo(TextOf(odd)), HasCode(absl::StatusCode::kInternal));
}

TEST_F(TcpLiarTest, OneThatSaysNothingMayBeNoRemoraServer) {
  const TimePoint deadline = clock_.Now() + std::chrono::milliseconds(100);
  auto connection = Dial(where_, {}, clock_, deadline);
  const absl::Status status = (*connection)->Connect({}, deadline);
  EXPECT_THAT(status, HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("took the connection and does not answer: it is busy, stopped, or no Remora server"));
}

TEST_F(TcpLiarTest, AServersFramesAreChecked) {
  using K = FrameKind;
  const std::string junk(64, 'j');
  for (const FrameHeader& header :
       {FrameHeader{.kind = K::kReadAnswer, .size = 15}, FrameHeader{.kind = K::kReadAnswer, .size = 17},
        FrameHeader{.kind = K::kReadAnswer, .size = ~0u}, FrameHeader{.kind = K::kRead, .size = 8, .key = 1},
        FrameHeader{.kind = K::kEnd, .size = 1000}, FrameHeader{.kind = static_cast<K>(0)},
        FrameHeader{.kind = static_cast<K>(99)},
        FrameHeader{.kind = K::kReadAnswer, .zero = {0, 1, 0}, .size = 16},
        FrameHeader{.kind = K::kReadAnswer, .size = 16, .match = 1},
        FrameHeader{.kind = K::kFindAnswer, .size = 256}, FrameHeader{.kind = K::kFindAnswer, .size = 16},
        FrameHeader{.kind = K::kFind, .size = 16, .key = 1}}) {
    EXPECT_THAT(FailureOf(TextOf(header, junk)), HasCode(absl::StatusCode::kInternal))
        << "kind " << static_cast<int>(header.kind) << " size " << header.size;
  }
  for (const FrameHeader& header :
       {FrameHeader{.kind = K::kReadAnswer, .size = 256}, FrameHeader{.kind = K::kReadAnswer, .size = 320},
        FrameHeader{.kind = K::kFindAnswer, .size = 255}, FrameHeader{.kind = K::kFindAnswer, .size = 321},
        FrameHeader{.kind = K::kFindAnswer, .size = ~0u}}) {
    EXPECT_THAT(FailureOf(TextOf(header, std::string(400, 'j')), true), HasCode(absl::StatusCode::kInternal))
        << "kind " << static_cast<int>(header.kind) << " size " << header.size;
  }
  // Nothing was offered.
  EXPECT_THAT(FailureOf(TextOf(FrameHeader{.kind = K::kWrite, .size = 4, .key = 1}, "evil")),
              HasCode(absl::StatusCode::kPermissionDenied));
  const absl::Status said =
      FailureOf(TextOf(FrameHeader{.kind = K::kEnd, .size = 6, .key = 14}, std::string("no\nmore")));
  EXPECT_THAT(said, HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(said.message()), HasSubstr("the server ended the connection: no\\nmor"));
}

}  // namespace
}  // namespace remora::rdma
