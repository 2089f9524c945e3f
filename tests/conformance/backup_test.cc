// Backups that clients ask for. For their contents see tests/unit/store/backup_test.cc.
#include "store/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "client/client.h"
#include "store/server_store.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/hand_client.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class BackupRequests : public testing::TestWithParam<rdma::TransportKind> {
 protected:
  void Start(const std::string& backup_dir) {
    if (GetParam() == rdma::TransportKind::kVerbs && !VerbsHost().ok()) GTEST_SKIP() << VerbsHost().status();
    ServerOptions options;
    options.store.memory_size = std::size_t{16} << 20;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = temp_.path() + "/data";
    options.backup_dir = backup_dir;
    auto server = ServerThread::Start(options, FreshAddress(GetParam(), temp_.path()));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ClientOptions patient;  // a disk that others use may have a server wait for seconds
    patient.timeout = std::chrono::seconds(60);
    auto client = Client::Connect(server_->address(), patient, clock_);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    ASSERT_TRUE(client_->Put("key", "value").ok());
  }
  BackupProgress Await(std::uint64_t name) {
    for (;;) {
      const absl::StatusOr<BackupProgress> progress = client_->Backup(name);
      EXPECT_TRUE(progress.ok()) << progress.status();
      if (!progress.ok() || progress->done) return progress.value_or(BackupProgress{});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  TempDir temp_;
  const std::string backups_ = temp_.path() + "/backups";
  SteadyClock clock_;
  std::unique_ptr<ServerThread> server_;
  std::unique_ptr<Client> client_;
};
INSTANTIATE_TEST_SUITE_P(On, BackupRequests,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp,
                                         rdma::TransportKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(BackupRequests, ANameIsOneBackup) {
  START(backups_);
  const BackupProgress first = Await(7);
  EXPECT_EQ(first.id, 1u);
  EXPECT_GE(first.version, 1u);
  EXPECT_EQ(first.new_bytes, first.bytes);
  // Asked again, as who has lost the answer does: it is told, and no other one is made.
  EXPECT_EQ(Await(7).id, 1u);
  EXPECT_EQ(Await(8).id, 2u);
  EXPECT_EQ(Await(7).id, 1u);
  EXPECT_EQ(Await(7).bytes, first.bytes);
  const auto listed = ListBackups(backups_);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_THAT(*listed, SizeIs(2));
  // Until many others were made.
  for (std::uint64_t name = 9; name < 8 + kRememberedBackups; ++name) Await(name);
  EXPECT_EQ(Await(7).id, 2 + kRememberedBackups);
}

TEST_P(BackupRequests, OneAtATime) {
  START(backups_);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(client_->Put(std::to_string(i), std::string(10'000, static_cast<char>('a' + i % 26))).ok());
  }
  const absl::StatusOr<BackupProgress> one = client_->Backup(1);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_FALSE(one->done) << "the answer does not wait for it";
  const absl::StatusOr<BackupProgress> other = client_->Backup(2);
  if (other.ok()) {
    EXPECT_TRUE(client_->Backup(1).value().done) << "two at once";
    Await(2);
  } else {
    EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(Await(1).id, 1u);
  }
  EXPECT_TRUE(VerifyBackup(backups_, 0).ok());
}

TEST_P(BackupRequests, AFailureIsTold) {
  START(temp_.path() + "/missing/backups");
  client_->Backup(1).IgnoreError();
  absl::StatusOr<BackupProgress> progress;
  do {
    progress = client_->Backup(1);
  } while (progress.ok() && !progress->done);
  EXPECT_EQ(progress.status().code(), absl::StatusCode::kNotFound) << progress.status();
  EXPECT_EQ(client_->Get("key").value(), "value");
}

TEST_P(BackupRequests, WithoutAPlaceItIsRejected) {
  START("");
  const absl::Status rejected = client_->Backup(1).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("--backup_dir"));
}

TEST_P(BackupRequests, MalformedRequestsAreInvalid) {
  START(backups_);
  EXPECT_EQ(client_->Backup(0).status().code(), absl::StatusCode::kInvalidArgument);
  const auto address = rdma::ParseAddress(server_->address());
  ASSERT_TRUE(address.ok());
  auto connection =
      rdma::Dial(*address, rdma::QueueLimits(), clock_, clock_.Now() + std::chrono::seconds(20));
  ASSERT_TRUE(connection.ok()) << connection.status();
  HandClient hand(*std::move(connection), clock_);
  std::vector<Request> wrong(4, HandClient::MakeRequest(Operation::kBackup, 0, 0));
  wrong[1].condition = wrong[2].condition = wrong[3].condition = 1;
  wrong[1].key_size = 1;
  wrong[2].value_size = 1;
  wrong[3].payload_offset = 1;
  for (const Request& request : wrong) {
    const auto answer = hand.Ask(request);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(static_cast<int>(answer->status()), static_cast<int>(ReplyStatus::kInvalid));
  }
  EXPECT_EQ(ListBackups(backups_).status().code(), absl::StatusCode::kNotFound) << "nothing was begun";
}

}  // namespace
}  // namespace remora
