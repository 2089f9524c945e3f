#include "tests/support/server_thread.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"

namespace remora {
namespace {

bool IsFree(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REMORA_CHECK(fd >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  const bool is_free = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return is_free;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerThread>> ServerThread::Start(const ServerOptions& options,
                                                                  std::span<const rdma::Address> addresses,
                                                                  rdma::MemoryWindows windows) {
  std::unique_ptr<ServerThread> self(new ServerThread);
  std::promise<absl::Status> started;
  std::future<absl::Status> start = started.get_future();
  // Made, used and destroyed in the one thread, as Server and Listener ask for.
  self->thread_ = std::thread([&options, addresses, windows, &started, self = self.get()] {
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(options);
    if (!server.ok()) return started.set_value(server.status());
    for (const rdma::Address& address : addresses) {
      auto listener = rdma::Listen(address, rdma::QueueLimits(), self->clock_, windows, 1, {}, options.tls);
      if (!listener.ok()) return started.set_value(listener.status());
      if (self->address_.empty()) self->address_ = (*listener)->address().ToString();
      absl::Status added = (*server)->AddListener(*std::move(listener));
      if (!added.ok()) return started.set_value(std::move(added));
    }
    self->server_ = server->get();
    started.set_value(absl::OkStatus());
    self->server_->Run().IgnoreError();  // the store says it, too
  });
  absl::Status status = start.get();
  if (!status.ok()) return status;
  return self;
}

ServerThread::~ServerThread() {
  if (server_ != nullptr) server_->Stop();
  if (thread_.joinable()) thread_.join();
}

std::string NameOf(rdma::TransportKind kind) {
  switch (kind) {
    case rdma::TransportKind::kVerbs:
      return "verbs";
    case rdma::TransportKind::kLocal:
      return "local";
    case rdma::TransportKind::kTcp:
      return "tcp";
  }
  return "none";
}

rdma::Address FreshAddress(rdma::TransportKind kind, const std::string& directory) {
  static std::atomic<int> count = 0;
  rdma::Address address;
  address.kind = kind;
  if (kind == rdma::TransportKind::kVerbs) {
    absl::StatusOr<std::string> host = VerbsHost();
    REMORA_CHECK(host.ok());
    address.host = *std::move(host);
    address.port = static_cast<std::uint16_t>(10000 + (::getpid() * 131 + count++) % 10000);
  } else if (kind == rdma::TransportKind::kTcp) {
    address.host = "127.0.0.1";
    do {  // below those that tests/endtoend/harness.py takes, and that the system gives to clients
      address.port = static_cast<std::uint16_t>(10000 + (::getpid() * 131 + count++) % 10000);
    } while (!IsFree(address.port));
  } else {
    address.path = absl::StrCat(directory, "/", count++, ".sock");
  }
  return address;
}

absl::StatusOr<std::string> VerbsHost() {
  const char* const host = std::getenv("REMORA_VERBS_HOST");
  if (host != nullptr && *host != '\0') return std::string(host);
  return absl::NotFoundError(
      "REMORA_VERBS_HOST is not set: no RDMA device to test with (see tools/rdma-guest)");
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "remora-test.XXXXXX").string();
  REMORA_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;  // a test that fails to clean up has other things to say
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace remora
