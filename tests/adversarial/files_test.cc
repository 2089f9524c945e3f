// The files of the socket's directory, removed, swapped, and taken by others while a server is there.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "rdma/local/socket.h"
#include "rdma/unique_fd.h"
#include "tests/adversarial/adversarial_fixture.h"
#include "tests/support/as_user.h"

namespace remora {
namespace {

namespace fs = std::filesystem;

class Files : public Hostile {
 protected:
  std::string path() const { return served_->where().path; }
  std::string lock() const { return path() + ".lock"; }
  absl::Status ConnectStatus(std::chrono::milliseconds timeout = std::chrono::milliseconds(500)) {
    return Client::Connect(served_->address(), {.connect_timeout = timeout}, served_->clock()).status();
  }
  bool Connects() { return ConnectStatus(std::chrono::seconds(20)).ok(); }
  absl::Status ListenStatus() { return rdma::Listen(served_->where(), {}, served_->clock()).status(); }
  static std::string Contents(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The witness has seen nothing of it, and the server ends as it should.
  void ExpectServedToTheEnd() {
    const Witness::Report report = witness_->Stop(1000);
    EXPECT_EQ(report.faults, 0u) << report.first_fault;
    EXPECT_EQ(served_->Stop(), 0);
  }
};
INSTANTIATE_TEST_SUITE_P(On, Files, testing::Values(rdma::TransportKind::kLocal),
                         [](const auto&) { return std::string("local"); });

TEST_P(Files, ASocketThatIsRemovedIsMissedByNewcomersAlone) {
  START_HOSTILE();
  fs::remove(path());
  EXPECT_EQ(ConnectStatus().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ListenStatus().code(), absl::StatusCode::kAlreadyExists) << "the lock is the server's";
  EXPECT_FALSE(fs::exists(path()));
  ExpectServedToTheEnd();
}

TEST_P(Files, AFileInTheSocketsPlaceStaysThere) {
  START_HOSTILE();
  fs::remove(path());
  std::ofstream(path()) << "somebody's";
  EXPECT_EQ(ConnectStatus().code(), absl::StatusCode::kUnavailable);
  ExpectServedToTheEnd();
  EXPECT_EQ(Contents(path()), "somebody's") << "it was not the server's to remove";
  EXPECT_EQ(ListenStatus().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Contents(path()), "somebody's");
}

TEST_P(Files, TheWholeDirectoryMayGo) {
  START_HOSTILE();
  fs::remove(path());
  fs::remove(lock());
  fs::remove(served_->folder());
  EXPECT_EQ(ConnectStatus().code(), absl::StatusCode::kUnavailable);
  ExpectServedToTheEnd();
}

TEST_P(Files, ASymlinkIsFollowedByClientsAndLeftAloneByServers) {
  START_HOSTILE();
  const std::string elsewhere = served_->folder() + "/elsewhere";
  fs::rename(path(), elsewhere);
  fs::create_symlink(elsewhere, path());
  EXPECT_TRUE(Connects());
  ExpectServedToTheEnd();
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_EQ(ListenStatus().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::is_symlink(path()));
}

TEST_P(Files, ALockThatIsASymlinkIsNotFollowed) {
  START_HOSTILE();
  const std::string victim = served_->folder() + "/victim";
  std::ofstream(victim) << "kept";
  ExpectServedToTheEnd();
  fs::remove(lock());
  fs::create_symlink(victim, lock());
  EXPECT_FALSE(ListenStatus().ok());
  EXPECT_EQ(Contents(victim), "kept");
  fs::remove(lock());
  fs::create_directory(lock());
  EXPECT_FALSE(ListenStatus().ok());
  EXPECT_TRUE(fs::is_directory(lock()));
}

TEST_P(Files, WithoutTheLockALivingServerIsStillSeen) {
  START_HOSTILE();
  fs::remove(lock());
  EXPECT_EQ(ListenStatus().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Connects());
  ExpectServedToTheEnd();
}

// A person who removes both lets another server come. Each serves its own clients; the first to go takes
// nothing along.
TEST_P(Files, AServerThatTookThePlaceKeepsIt) {
  START_HOSTILE();
  fs::remove(path());
  fs::remove(lock());
  const auto successor = Served::Start(GetParam(), {}, served_->where());
  ASSERT_TRUE(successor.ok()) << successor.status();
  ExpectServedToTheEnd();
  const auto client = Client::Connect((*successor)->address(), {}, served_->clock());
  ASSERT_TRUE(client.ok()) << client.status() << ": its socket went with the other server";
  EXPECT_TRUE((*client)->Put("key", "value").ok());
}

// A user, not root, comes to a place where another user, not root either, has put a socket.
TEST_P(Files, AnotherUsersSocketIsToldNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become other users";
  START_HOSTILE();
  fs::permissions(served_->folder(), fs::perms::all);
  fs::remove(path());
  constexpr uid_t kImpostor = 65534, kVictim = 65533;
  const std::string place = path();
  const rdma::UniqueFd impostor(AsUser(kImpostor, [&place] {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, place.data(), place.size());
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd, 1), 0);
    return fd;
  }));
  fs::permissions(place, fs::perms::all);
  const absl::Status rejection = AsUser(kVictim, [this] { return ConnectStatus(); });
  EXPECT_EQ(rejection.code(), absl::StatusCode::kPermissionDenied) << rejection;
  const rdma::UniqueFd victim(accept(impostor.get(), nullptr, nullptr));
  char byte = 0;
  EXPECT_EQ(recv(victim.get(), &byte, 1, 0), 0) << "something was said";
  ExpectServedToTheEnd();
  EXPECT_TRUE(fs::is_socket(path())) << "it was not the server's to remove";
}

}  // namespace
}  // namespace remora
