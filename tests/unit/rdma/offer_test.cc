// Memory that a client offers its server to WRITE (rdma/transport.h), on each transport.
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

class OfferTest : public TransportTest {
 protected:
  static constexpr std::size_t kOfferSize = kTestStagingSize;

  static std::unique_ptr<SharedMemory> Memory(std::size_t size = kOfferSize,
                                              SharedMemory::Writers writers = SharedMemory::Writers::kPeers) {
    auto memory = SharedMemory::Create("remora-test-offer", size, writers);
    EXPECT_THAT(memory, IsOk());
    return *std::move(memory);
  }
  /// Has the service WRITE these bytes, and waits for its message behind them.
  static absl::StatusOr<std::string> WriteBack(Client& client, const RemoteRegion& region,
                                               std::uint64_t offset, std::string_view bytes) {
    if (absl::Status status = client.Write(0, bytes); !status.ok()) return status;
    const WriteCommand what{.command = {.op = ServiceOp::kWriteBack, .a = offset, .b = bytes.size()},
                            .region = region};
    return client.Call(std::string(reinterpret_cast<const char*>(&what), sizeof(what)));
  }
  static std::string TextAt(const SharedMemory& memory, std::uint64_t offset, std::size_t size) {
    return std::string(reinterpret_cast<const char*>(memory.bytes().data()) + offset, size);
  }
};
INSTANTIATE_TEST_SUITE_P(On, OfferTest, ::testing::Values("local", "tcp", "tls", "verbs"),
                         [](const auto& test) { return test.param; });

TEST_P(OfferTest, AMessageComesAfterTheWritesBeforeIt) {  // O1, in the other direction
  StartService();
  const auto memory = Memory();
  const auto client = Open({.offered = memory.get()});
  const auto registration = client->connection().RegisterWrite(*memory);
  ASSERT_THAT(registration, IsOk());
  std::mt19937_64 random(4);
  for (int i = 0; i < Rounds(3000); ++i) {
    std::string bytes(1 + random() % (i % 16 == 0 ? 40000 : 600), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::uint64_t offset = random() % (kOfferSize - bytes.size());
    ASSERT_THAT(WriteBack(*client, (*registration)->remote(), offset, bytes), IsOk());
    ASSERT_TRUE(TextAt(*memory, offset, bytes.size()) == bytes) << "round " << i;
  }
  ASSERT_THAT(WriteBack(*client, (*registration)->remote(), kOfferSize - 4, "last"), IsOk());
  EXPECT_EQ(TextAt(*memory, kOfferSize - 4, 4), "last");
}

TEST_P(OfferTest, MemoryMayBeRegisteredMoreThanOnceAndNotAtAll) {
  StartService();
  const auto memory = Memory();
  const auto client = Open({.offered = memory.get()});
  EXPECT_EQ(client->Read(5, {100}).value_or(""), RegionText(5, 100));
  for (int i = 0; i < 3; ++i) {
    const auto registration = client->connection().RegisterWrite(*memory);
    ASSERT_THAT(registration, IsOk());
    ASSERT_THAT(WriteBack(*client, (*registration)->remote(), 0, "bytes"), IsOk());
    EXPECT_EQ(TextAt(*memory, 0, 5), "bytes");
  }
}

TEST_P(OfferTest, UnsuitableMemoryCannotBeOffered) {
  StartService();
  const auto memory = Memory();
  const auto large = Memory(2 * kMaxOfferedSize);
  const auto own = Memory(kOfferSize, SharedMemory::Writers::kOwnerOnly);
  EXPECT_THAT(TryOpen({.offered = large.get()}), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TryOpen({.offered = own.get()}), HasCode(absl::StatusCode::kInvalidArgument));
  const auto client = Open({.offered = memory.get()});
  EXPECT_THAT(client->connection().OfferWrite(*memory), HasCode(absl::StatusCode::kFailedPrecondition));
}

// A server takes the region's name from its client, who may say anything.
TEST_P(OfferTest, AForgedRegionBreaksOnlyTheForger) {
  StartService();
  const auto other = Open();
  for (const int forgery : {0, 1, 2}) {
    const auto memory = Memory();
    const auto forger = Open({.offered = forgery == 2 ? nullptr : memory.get()});
    RemoteRegion region{.address = 64, .size = kOfferSize, .key = 1};
    std::unique_ptr<Registration> registration;
    if (forgery != 2) {
      auto registered = forger->connection().RegisterWrite(*memory);
      ASSERT_THAT(registered, IsOk());
      registration = *std::move(registered);
      region = registration->remote();
    }
    if (forgery == 0) region.size += std::uint64_t{1} << 30;
    if (forgery == 1) region.key += 77;
    EXPECT_FALSE(WriteBack(*forger, region, region.size - 100, "somewhere").ok());
    EXPECT_THAT(forger->AwaitDisconnect(), IsOk());
    EXPECT_TRUE(service_->Await([](Service& service) { return service.session_count() == 1; }));
    EXPECT_EQ(TextAt(*memory, 0, kOfferSize), std::string(kOfferSize, '\0'));
  }
  EXPECT_EQ(other->Call(CommandText(ServiceOp::kEcho, 7)).value_or(""), CommandText(ServiceOp::kEcho, 7));
}

TEST_P(OfferTest, AWriteBeyondTheRegionIsNotPosted) {
  StartService();
  const auto memory = Memory();
  const auto client = Open({.offered = memory.get()});
  const auto registration = client->connection().RegisterWrite(*memory);
  ASSERT_THAT(registration, IsOk());
  const WriteCommand what{.command = {.op = ServiceOp::kWriteBack, .a = kOfferSize - 3, .b = 4},
                          .region = (*registration)->remote()};
  ASSERT_THAT(client->Send(std::string(reinterpret_cast<const char*>(&what), sizeof(what))), IsOk());
  EXPECT_TRUE(service_->Await(
      [](Service& service) { return service.write_back().code() == absl::StatusCode::kInvalidArgument; }));
  EXPECT_EQ(client->Call(CommandText(ServiceOp::kEcho, 7)).value_or(""), CommandText(ServiceOp::kEcho, 7));
}

}  // namespace
}  // namespace remora::rdma
