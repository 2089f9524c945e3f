// Connections that the server has parked (A6 of wire.h): nothing that their clients post is lost, and a
// client that breaks the rule waits alone.
#include <poll.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rdma/local/mapping.h"
#include "rdma/local/polled_connections.h"
#include "rdma/local/ring.h"
#include "rdma/local/socket.h"
#include "tests/unit/rdma/patience.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

/// Has the two sides' memory in its hands, and rings only when it is told to.
class SilentClient {
 public:
  explicit SilentClient(const Address& address) {
    auto socket = ConnectTo(address.path, kPatience);
    EXPECT_THAT(socket, IsOk());
    if (!socket.ok()) return;
    socket_ = *std::move(socket);
    EXPECT_THAT(SendHello(socket_.get(), {}, {}), IsOk());
    pollfd answered = {socket_.get(), POLLIN, 0};
    poll(&answered, 1, -1);
    const auto received = ReceiveReply(socket_.get());
    EXPECT_THAT(received, IsOk());
    if (!received.ok()) return;
    const std::uint32_t slots = received->reply.ring_slots;
    server_mapping_ = *LocalMapping::Map(received->descriptors[1].get(), LocalSideBytes(slots), false);
    own_mapping_ = *LocalMapping::Map(received->descriptors[2].get(), LocalSideBytes(slots), true);
    auto* const own = reinterpret_cast<LocalSide*>(own_mapping_.bytes().data());
    server_ = reinterpret_cast<const LocalSide*>(server_mapping_.bytes().data());
    writer_ = RingWriter(own, server_, slots);
    reader_ = RingReader(own, server_, slots);
  }

  void Post() { EXPECT_EQ(writer_.Push(BytesOf(CommandText(ServiceOp::kEcho))), RingResult::kDone); }
  void Ring() { WakePeer(socket_.get()); }
  bool is_parked() const { return server_->sleeping.Sleep() != 0; }
  bool has_answer() const { return reader_.HasMessage(); }

 private:
  UniqueFd socket_;
  LocalMapping server_mapping_;
  LocalMapping own_mapping_;
  const LocalSide* server_ = nullptr;
  RingWriter writer_;
  RingReader reader_;
};

class LocalParkingTest : public ::testing::Test {
 protected:
  LocalParkingTest() {
    const Address where = {
        .kind = TransportKind::kLocal, .host = "", .port = 0, .path = folder_.path() / "socket"};
    auto service = ServiceThread::Start(where, {}, clock_);
    EXPECT_THAT(service, IsOk());
    service_ = *std::move(service);
    silent_ = std::make_unique<SilentClient>(where);
    for (std::size_t i = 0; i < 2 * PolledConnections::kAlwaysPolled; ++i) idle_.push_back(Open());
  }

  std::unique_ptr<Client> Open() {
    auto client = Client::Open(service_->address(), clock_);
    EXPECT_THAT(client, IsOk());
    return *std::move(client);
  }
  bool Works(Client& client) {
    const std::string message = CommandText(ServiceOp::kEcho, 7);
    return client.Call(message).value_or("") == message;
  }
  /// Has the server poll so often without a rest.
  void KeepBusy(std::uint32_t polls) {
    service_->Do([polls](Service& service) { service.WorkTimes(polls); });
  }
  /// Parks all connections that the server need not poll. The silent client's is the oldest, so it is one of
  /// them.
  void ParkIdle() {
    KeepBusy(2 * PolledConnections::kIdlePolls);
    ASSERT_TRUE(silent_->is_parked());
  }

  const SteadyClock clock_ = {};
  TemporaryFolder folder_;
  std::unique_ptr<ServiceThread> service_;
  std::unique_ptr<SilentClient> silent_;
  std::vector<std::unique_ptr<Client>> idle_;
};

TEST_F(LocalParkingTest, AClientEndsTheParkingOfItsConnection) {
  for (int i = 0; i < 3; ++i) {
    ParkIdle();
    ASSERT_TRUE(service_->AwaitSleep());  // the byte must end both
    for (const auto& client : idle_) EXPECT_TRUE(Works(*client));
  }
}

// Where the server sleeps, the byte that wakes it would end the parking, too.
TEST_F(LocalParkingTest, ClientsRingAtAServerThatIsAwake) {
  for (const auto& client : idle_) ASSERT_TRUE(Works(*client));  // the server has accepted all of them
  service_->Do([this](Service& service) {
    service.WorkTimes(2 * PolledConnections::kIdlePolls);
    EXPECT_TRUE(silent_->is_parked());
    // At least half of them are parked.
    std::vector<std::size_t> heard;
    for (const auto& client : idle_) {
      heard.push_back(client->receive_count());
      EXPECT_THAT(client->Send(CommandText(ServiceOp::kEcho, 7)), IsOk());
    }
    service.WorkTimes(PolledConnections::kIdlePolls / 2);
    for (std::size_t i = 0; i < idle_.size(); ++i) {
      idle_[i]->Poll();
      EXPECT_EQ(idle_[i]->receive_count(), heard[i] + 1) << i;
    }
  });
}

TEST_F(LocalParkingTest, OneThatDoesNotRingWaitsAlone) {
  ParkIdle();
  silent_->Post();
  KeepBusy(PolledConnections::kIdlePolls);
  EXPECT_FALSE(silent_->has_answer());
  EXPECT_TRUE(Works(*idle_.front()));
  // A server that never sleeps looks at its sockets, too.
  service_->Do([this](Service& service) {
    silent_->Ring();
    service.WorkTimes(PolledConnections::kIdlePolls / 2);
    EXPECT_TRUE(silent_->has_answer());
  });
}

TEST_F(LocalParkingTest, OneThatRingsForNothingHarmsNobody) {
  ParkIdle();
  for (int rings = 0; rings < 100; ++rings) silent_->Ring();
  for (const auto& client : idle_) EXPECT_TRUE(Works(*client));
  KeepBusy(2 * PolledConnections::kIdlePolls);
  EXPECT_FALSE(silent_->has_answer());
  for (const auto& client : idle_) EXPECT_TRUE(Works(*client));
}

TEST_F(LocalParkingTest, TheEndOfAParkedClientIsSeen) {
  ParkIdle();
  silent_.reset();
  idle_.pop_back();
  EXPECT_TRUE(service_->Await([](Service& service) { return service.disconnects() == 2; }));
  EXPECT_TRUE(Works(*idle_.front()));
}

TEST_F(LocalParkingTest, AServerEndsParkedConnections) {
  ParkIdle();
  service_.reset();
  EXPECT_THAT(*idle_.front()->AwaitDisconnect(), HasCode(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace remora::rdma
