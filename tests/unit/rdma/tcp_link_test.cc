// One TcpLink in the test's own thread, which plays the NIC thread and the server thread in turns: each
// order of their steps happens as the test says.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "rdma/tcp/server/link.h"
#include "rdma/tcp/stream/socket.h"
#include "rdma/tcp/stream/wire.h"
#include "store/format/memory/layout.h"
#include "tests/unit/rdma/patience.h"
#include "tests/unit/rdma/transport_client.h"

namespace remora::rdma {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kLinkRegionKey = 1;
constexpr int kPatienceMs = 1000 * static_cast<int>(kPatience.count());

void SetSocketBuffer(int socket, int which, int size) {
  ASSERT_EQ(setsockopt(socket, SOL_SOCKET, which, &size, sizeof(size)), 0);
}

class TcpLinkTest : public ::testing::Test {
 protected:
  static constexpr QueueLimits kLimits = {.sends = 1000, .receives = 8, .reads = 16};

  /// Connects a peer whose system takes little, and a link whose system takes `send_buffer` bytes.
  void Connect(int send_buffer) {
    auto listening = ListenAtTcp({.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""});
    ASSERT_THAT(listening, IsOk());
    const TcpSocketAddress address = LocalAddressOf(listening->front().get());
    peer_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SetSocketBuffer(peer_.get(), SO_RCVBUF, 4096);
    const timeval timeout = {.tv_sec = kPatience.count(), .tv_usec = 0};
    ASSERT_EQ(setsockopt(peer_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
    ASSERT_EQ(connect(peer_.get(), address.get(), address.size), 0);
    pollfd fd = {listening->front().get(), POLLIN, 0};
    ASSERT_EQ(poll(&fd, 1, kPatienceMs), 1);
    UniqueFd accepted(accept4(listening->front().get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    SetSocketBuffer(accepted.get(), SO_SNDBUF, send_buffer);
    SetSocketBuffer(accepted.get(), SO_RCVBUF, 1 << 20);
    auto events = TcpEvents::Create();
    ASSERT_THAT(events, IsOk());
    events_ = *std::move(events);
    link_ = std::make_shared<TcpLink>(std::move(accepted), kLimits, *events_);
    link_->AddRead(kLinkRegionKey, region_);
    epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
    // The link names its connection, and does not use it.
    ASSERT_TRUE(link_->Start(epoll_.get(), served_, reinterpret_cast<Connection*>(this)));
  }
  void TearDown() override {
    if (link_ != nullptr) link_->End();
  }

  void Say(const std::string& bytes) {
    ASSERT_EQ(send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string ReadsOf(std::uint32_t size, int count) {
    std::string reads;
    const FrameHeader header{.kind = FrameKind::kRead, .size = size, .key = kLinkRegionKey};
    for (int i = 0; i < count; ++i) reads.append(reinterpret_cast<const char*>(&header), sizeof(header));
    return reads;
  }
  /// One turn of the NIC thread, if an event gives it one in time. Returns whether one did.
  bool Turn(int timeout_ms) {
    epoll_event event;
    if (epoll_wait(epoll_.get(), &event, 1, timeout_ms) != 1) return false;
    const TcpLink::Handled handled = link_->Handle(event.events, buffer_);
    is_ending_ |= handled.is_new_end;
    if (handled.has_completions) events_->Report(link_);
    return true;
  }
  /// Takes the bytes that have come to the peer.
  void Hear() {
    std::array<char, 65536> some;
    for (;;) {
      const ssize_t got = recv(peer_.get(), some.data(), some.size(), MSG_DONTWAIT);
      if (got <= 0) return;
      heard_.append(some.data(), static_cast<std::size_t>(got));
    }
  }
  /// The frames that the peer has heard whole.
  std::vector<std::pair<FrameHeader, std::string>> Frames() const {
    std::vector<std::pair<FrameHeader, std::string>> frames;
    for (std::size_t at = 0; heard_.size() - at >= sizeof(FrameHeader);) {
      FrameHeader header;
      std::memcpy(&header, heard_.data() + at, sizeof(header));
      if (heard_.size() - at - sizeof(header) < header.size) break;
      frames.emplace_back(header, heard_.substr(at + sizeof(header), header.size));
      at += sizeof(header) + header.size;
    }
    return frames;
  }
  std::size_t AnswersHeard() const {
    const auto frames = Frames();
    return static_cast<std::size_t>(std::ranges::count_if(
        frames, [](const auto& frame) { return frame.first.kind == FrameKind::kReadAnswer; }));
  }

  const SteadyClock clock_ = {};
  std::vector<std::byte> region_ = std::vector<std::byte>(1 << 20, std::byte{'r'});
  std::vector<std::byte> buffer_ = std::vector<std::byte>(TcpInbox::kBufferSize);
  ServedReads served_;
  std::unique_ptr<TcpEvents> events_;
  std::shared_ptr<TcpLink> link_;
  UniqueFd epoll_;
  UniqueFd peer_;
  std::string heard_;
  bool is_ending_ = false;
};

// The peer takes nothing, and its system holds less than one answer. Each READ of 24 bytes is an answer
// that waits; a buffer of 16 KiB holds 682.
TEST_F(TcpLinkTest, OfAPeerThatTakesNothingAtMost64AnswersWait) {
  Connect(64 << 10);
  Say(ReadsOf(1 << 20, 1000));
  ASSERT_TRUE(Turn(kPatienceMs));
  while (Turn(50)) {
  }
  EXPECT_EQ(served_.reads, 64u);
}

// Frames wait in the inbox behind a full outbox. It is the server thread that empties the outbox, with a
// message of its own, so no event of the socket says that the frames can be taken now.
TEST_F(TcpLinkTest, FramesBehindAnOutboxThatTheServerThreadEmptiedAreTaken) {
  constexpr std::uint32_t kSize = 64 << 10;
  constexpr std::size_t kReads = 100;
  Connect(64 << 10);
  Say(ReadsOf(kSize, kReads));
  ASSERT_TRUE(Turn(kPatienceMs));
  ASSERT_LT(served_.reads, kReads);
  const std::size_t taken = served_.reads;
  std::array<std::byte, 8> message{};
  const TimePoint deadline = clock_.Now() + kPatience;
  std::array<Completion, 16> completions;
  while (AnswersHeard() < taken && clock_.Now() < deadline) {
    Hear();
    ASSERT_THAT(link_->PostSend(1, {message.data(), 8, 0}), IsOk());
    while (link_->Take(completions) > 0) {
    }
    // At most one packet may come. More follows once the peer's system has said that it has space.
    pollfd fd = {peer_.get(), POLLIN, 0};
    poll(&fd, 1, 10);
  }
  ASSERT_EQ(AnswersHeard(), taken);
  ASSERT_EQ(served_.reads, taken);
  // From here on the NIC thread is alone.
  while (AnswersHeard() < kReads && clock_.Now() < deadline) {
    // The system asks a peer that was slow for space with longer and longer pauses.
    ASSERT_TRUE(Turn(40'000)) << "no event gives the link its turn";
    Hear();
  }
  EXPECT_EQ(AnswersHeard(), kReads);
}

// The reason waits behind an answer that the peer has not taken, and bytes of the peer's are unread. A socket
// closed now would drop the reason.
TEST_F(TcpLinkTest, APeerThatIsGivenUpHearsWhyWhenItReads) {
  constexpr std::uint32_t kSize = 200'000;
  Connect(1 << 20);
  const FrameHeader bad{.kind = static_cast<FrameKind>(77)};
  Say(ReadsOf(kSize, 1));
  ASSERT_TRUE(Turn(kPatienceMs));
  Say(std::string(reinterpret_cast<const char*>(&bad), sizeof(bad)) + std::string(100'000, 'x'));
  ASSERT_TRUE(Turn(kPatienceMs));
  EXPECT_TRUE(is_ending_);
  std::array<char, 4096> some;
  ssize_t got = 0;
  while ((got = recv(peer_.get(), some.data(), some.size(), 0)) > 0) {
    heard_.append(some.data(), static_cast<std::size_t>(got));
  }
  const auto frames = Frames();
  ASSERT_EQ(frames.size(), 2u) << heard_.size() << " bytes were heard";
  EXPECT_EQ(frames[0].first.kind, FrameKind::kReadAnswer);
  EXPECT_EQ(frames[1].first.kind, FrameKind::kEnd);
  EXPECT_THAT(frames[1].second, HasSubstr("which no client sends"));
  link_->CloseIfEnding();
}

// --- FIND -----------------------------------------------------------------------------------------

constexpr std::uint32_t kFingerprint = 0x5a5;
constexpr std::uint64_t kBucketOffset = 4096;

class TcpFindTest : public TcpLinkTest {
 protected:
  void SetUp() override {
    Connect(1 << 20);
    for (std::size_t i = 0; i < region_.size(); ++i) region_[i] = PatternByte(i);
    bucket_ = new (region_.data() + kBucketOffset) Bucket{};
  }
  static std::uint64_t SlotOf(std::uint32_t fingerprint, std::uint64_t offset, std::uint64_t units) {
    return EncodeSlot({fingerprint, ExtentCode(units), offset / kUnitSize});
  }
  /// The answer to a FIND that wants so many bytes of a record.
  std::pair<FrameHeader, std::string> FindOf(std::uint32_t most) {
    heard_.clear();
    Say(TextOf({.kind = FrameKind::kFind,
                .size = most,
                .key = kLinkRegionKey,
                .match = kFingerprint,
                .offset = kBucketOffset}));
    EXPECT_TRUE(Turn(kPatienceMs));
    const TimePoint deadline = clock_.Now() + kPatience;
    while (Frames().empty() && clock_.Now() < deadline) {
      pollfd fd = {peer_.get(), POLLIN, 0};
      poll(&fd, 1, 1000);
      Hear();
    }
    const auto frames = Frames();
    EXPECT_EQ(frames.size(), 1u);
    return frames.empty() ? std::pair<FrameHeader, std::string>() : frames.front();
  }
  static std::string TextOf(const FrameHeader& header) {
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
  }
  std::string RegionBytes(std::uint64_t offset, std::size_t size) const {
    return std::string(reinterpret_cast<const char*>(region_.data()) + offset, size);
  }
  /// The bucket comes, and nothing else.
  void ExpectNothingFound(std::uint32_t most) {
    const auto [header, bytes] = FindOf(most);
    EXPECT_EQ(header.kind, FrameKind::kFindAnswer);
    EXPECT_EQ(header.offset, 0u);
    EXPECT_TRUE(bytes == RegionBytes(kBucketOffset, sizeof(Bucket))) << bytes.size();
  }

  Bucket* bucket_ = nullptr;
};

TEST_F(TcpFindTest, TheRecordOfTheFirstSlotWithTheFingerprintComes) {
  bucket_->slots[2] = SlotOf(kFingerprint + 1, 8192, 10);
  bucket_->slots[5] = SlotOf(kFingerprint, 16384, 20);
  bucket_->slots[9] = SlotOf(kFingerprint, 32768, 30);
  const auto [header, bytes] = FindOf(4096);
  EXPECT_EQ(header.kind, FrameKind::kFindAnswer);
  EXPECT_EQ(header.offset, 16384u);
  EXPECT_EQ(bytes.substr(0, sizeof(Bucket)), RegionBytes(kBucketOffset, sizeof(Bucket)));
  EXPECT_EQ(bytes.substr(sizeof(Bucket)), RegionBytes(16384, 20 * kUnitSize));
}

TEST_F(TcpFindTest, WithoutASlotTheBucketComesAlone) {
  ExpectNothingFound(4096);
  bucket_->slots[3] = SlotOf(kFingerprint + 1, 8192, 10);
  ExpectNothingFound(4096);
  bucket_->slots[4] = EncodeSlot({kFingerprint, 0, 77});  // that of a cold key
  ExpectNothingFound(4096);
}

TEST_F(TcpFindTest, ARecordThatIsLongerThanWantedDoesNotCome) {
  bucket_->slots[0] = SlotOf(kFingerprint, 16384, 20);
  EXPECT_EQ(FindOf(20 * kUnitSize).first.size, sizeof(Bucket) + 20 * kUnitSize);
  ExpectNothingFound(20 * kUnitSize - 1);
  ExpectNothingFound(0);
}

// A slot that is torn, or of a server that has lost its memory.
TEST_F(TcpFindTest, ARecordBeyondTheRegionDoesNotCome) {
  for (const std::uint64_t offset :
       {region_.size() - 19 * kUnitSize, region_.size(), std::uint64_t{1} << 40}) {
    bucket_->slots[0] = SlotOf(kFingerprint, offset, 20);
    ExpectNothingFound(4096);
  }
  bucket_->slots[0] = SlotOf(kFingerprint, region_.size() - 20 * kUnitSize, 20);
  EXPECT_EQ(FindOf(4096).first.offset, region_.size() - 20 * kUnitSize);
}

TEST_F(TcpFindTest, BrokenOnesEndTheConnection) {
  const FrameHeader good{.kind = FrameKind::kFind,
                         .size = 4096,
                         .key = kLinkRegionKey,
                         .match = kFingerprint,
                         .offset = kBucketOffset};
  const auto with = [&](auto member, auto value) {
    FrameHeader header = good;
    header.*member = value;
    return header;
  };
  const std::uint64_t end = region_.size();
  const std::vector<std::pair<FrameHeader, const char*>> broken = {
      {with(&FrameHeader::key, kLinkRegionKey + 1), "FIND: outside"},
      {with(&FrameHeader::offset, end), "FIND: outside"},
      {with(&FrameHeader::offset, end - sizeof(Bucket) + 1), "FIND: outside"},
      {with(&FrameHeader::offset, ~std::uint64_t{0} - 255), "FIND: outside"},
      {with(&FrameHeader::size, kTcpMaxFound + 1), "FIND: outside"},
      {with(&FrameHeader::match, 0u), "FIND: outside"},
      {with(&FrameHeader::offset, kBucketOffset + 8), "no bucket"},
      {with(&FrameHeader::kind, FrameKind::kFindAnswer), "must be zero"},
      {with(&FrameHeader::kind, FrameKind::kRead), "must be zero"}};
  for (const auto& [header, why] : broken) {
    link_->End();
    Connect(1 << 20);
    heard_.clear();
    Say(TextOf(header));
    ASSERT_TRUE(Turn(kPatienceMs));
    EXPECT_THAT(std::string(link_->failure().message()), HasSubstr(why)) << header.offset;
    link_->CloseIfEnding();
  }
}

// The system sends a reset if bytes are unread as a process ends. That is no fault of the network.
TEST_F(TcpLinkTest, ClientThatClosesIsNotLost) {
  for (const bool has_unread : {false, true}) {
    if (link_ != nullptr) link_->End();
    Connect(1 << 20);
    if (has_unread) {
      Say(ReadsOf(100, 1));
      ASSERT_TRUE(Turn(kPatienceMs));
      pollfd fd = {peer_.get(), POLLIN, 0};
      ASSERT_EQ(poll(&fd, 1, kPatienceMs), 1);
    }
    peer_ = UniqueFd();
    while (link_->failure().ok()) ASSERT_TRUE(Turn(kPatienceMs)) << has_unread;
    EXPECT_EQ(link_->failure().message(), "the client closed the connection, or its process ended")
        << has_unread;
  }
}

}  // namespace
}  // namespace remora::rdma
