#include "tests/unit/rdma/transport_service.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "tests/unit/rdma/patience.h"

namespace remora::rdma {
namespace {

std::span<const std::byte> AsBytes(const std::uint64_t& value) {
  return std::as_bytes(std::span<const std::uint64_t, 1>(&value, 1));
}

}  // namespace

std::uint64_t HashOf(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

// Members in the order that their lives must be nested.
struct Service::Session {
  std::unique_ptr<ServerConnection> connection;
  std::unique_ptr<Registration> staging;
  std::unique_ptr<Registration> messages;  // limits.receives to receive into, then limits.sends to send from
  std::unique_ptr<Registration> grant;
  std::vector<std::byte> page_bytes;
  std::unique_ptr<Registration> page;  // of these
  std::uint32_t receive_size = 0;
  std::uint64_t sent = 0;
  bool closing = false;

  // Before the memory that the peer's messages go to is freed, which stands behind the connection.
  ~Session() {
    if (connection != nullptr) connection->Disconnect();
  }

  absl::Status PostReceive(std::uint64_t index) {
    return connection->PostRecv(index, MakeSge(*messages, index * kMaxMessageSize, receive_size));
  }
};

absl::StatusOr<std::shared_ptr<ServerTls>> TestServerTls() {
  REMORA_ASSIGN_OR_RETURN(std::shared_ptr<ServerTls> tls, ServerTls::Create({}));
  REMORA_RETURN_IF_ERROR(tls->Load({TestTls().secret}));
  return tls;
}

Service::Service(const QueueLimits& limits) : limits_(limits) {}

Service::~Service() = default;

absl::StatusOr<std::unique_ptr<Service>> Service::Start(const Address& address, const QueueLimits& limits,
                                                        const Clock& clock, MemoryWindows windows,
                                                        std::shared_ptr<ServerTls> tls) {
  std::unique_ptr<Service> service(new Service(limits));
  REMORA_ASSIGN_OR_RETURN(service->region_memory_, SharedMemory::Create("remora-test-region", kTestRegionSize,
                                                                        SharedMemory::Writers::kOwnerOnly));
  const std::span<std::byte> bytes = service->region_memory_->bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = PatternByte(i);
  if (tls == nullptr) {
    REMORA_ASSIGN_OR_RETURN(tls, TestServerTls());
  }
  REMORA_ASSIGN_OR_RETURN(service->listener_, Listen(address, limits, clock, windows, 1, {}, tls));
  REMORA_ASSIGN_OR_RETURN(service->region_, service->listener_->RegisterRead(*service->region_memory_));
  return service;
}

void Service::Serve(int stop_fd) {
  for (;;) {
    if (Work()) continue;
    listener_->Arm();
    const bool idle = !Work();
    std::array<pollfd, 2> fds = {{{stop_fd, POLLIN, 0}, {listener_->wait_fd(), POLLIN, 0}}};
    asleep_ = idle;
    poll(fds.data(), fds.size(), idle ? -1 : 0);
    asleep_ = false;
    listener_->Disarm();
    if (idle && fds[1].revents != 0) ++wake_ups_;
    if (fds[0].revents != 0) return;
  }
}

bool Service::Work() {
  bool worked = false;
  while (std::unique_ptr<ServerConnection> connection = listener_->NextRequest()) {
    Greet(std::move(connection));
    worked = true;
  }
  while (std::optional<std::string> rejection = listener_->NextRejection()) {
    rejections_.push_back(*std::move(rejection));
  }
  std::array<Completion, 16> completions;
  const std::size_t count = listener_->Poll(completions);
  for (std::size_t i = 0; i < count; ++i) Handle(completions[i]);
  return worked || count > 0;
}

void Service::Greet(std::unique_ptr<ServerConnection> connection) {
  const std::span<const std::byte> request = connection->peer_data();
  const auto mode = request.empty() ? ServiceMode::kServe : static_cast<ServiceMode>(request[0]);
  if (mode == ServiceMode::kReject) {
    std::array<std::byte, kMaxRejectData> data;
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = PatternByte(i);
    connection->Reject(data);
    return;
  }
  if (const absl::Status status = Admit(std::move(connection), mode); !status.ok()) {
    // The client may be gone already; it sees that it was not accepted.
    std::fprintf(stderr, "test service: not accepted: %s\n", status.ToString().c_str());
  }
}

absl::Status Service::Admit(std::unique_ptr<ServerConnection> connection, ServiceMode mode) {
  auto session = std::make_unique<Session>();
  session->connection = std::move(connection);
  session->receive_size = mode == ServiceMode::kTinyReceives ? 8 : kMaxMessageSize;
  REMORA_ASSIGN_OR_RETURN(session->staging,
                          session->connection->ProvideWrite("remora-test-staging", kTestStagingSize));
  REMORA_ASSIGN_OR_RETURN(session->messages, session->connection->ProvideMessages(
                                                 (limits_.receives + limits_.sends) * kMaxMessageSize));
  for (std::uint64_t i = 0; i < limits_.receives; ++i) REMORA_RETURN_IF_ERROR(session->PostReceive(i));

  std::array<std::byte, kMaxAcceptData> data;
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = PatternByte(i);
  const Welcome welcome = {.region = region_, .staging = session->staging->remote()};
  std::memcpy(data.data(), &welcome, sizeof(welcome));
  const std::span<const std::byte> request = session->connection->peer_data();
  std::copy_n(request.begin(), std::min(request.size(), kMaxConnectData), data.begin() + sizeof(welcome));
  REMORA_RETURN_IF_ERROR(session->connection->Accept(data));
  Connection* key = session->connection.get();
  sessions_.emplace(key, std::move(session));
  return absl::OkStatus();
}

void Service::Handle(const Completion& completion) {
  const auto found = sessions_.find(completion.connection);
  if (found == sessions_.end()) return;  // closed by an earlier message of the same batch
  Session& session = *found->second;
  if (completion.kind == CompletionKind::kDisconnected) {
    ++disconnects_;
    sessions_.erase(found);
    return;
  }
  if (completion.kind != CompletionKind::kReceive || !completion.ok) return;
  std::array<std::byte, kMaxMessageSize> message;
  std::copy_n(session.messages->bytes().subspan(completion.context * kMaxMessageSize).begin(),
              completion.byte_count, message.begin());
  session.PostReceive(completion.context).IgnoreError();  // broken: kDisconnected will follow
  Obey(session, std::span(message).first(completion.byte_count));
  if (session.closing) sessions_.erase(found);
}

void Service::Obey(Session& session, std::span<const std::byte> message) {
  if (message.empty()) return;
  ServiceCommand command;
  std::memcpy(&command, message.data(), std::min(message.size(), sizeof(command)));
  switch (command.op) {
    case ServiceOp::kEcho:
      return Reply(session, message);
    case ServiceOp::kHashStaging:
      return Reply(session, AsBytes(HashOf(session.staging->bytes().subspan(command.a, command.b))));
    case ServiceOp::kCountWakeUps:
      return Reply(session, AsBytes(wake_ups_));
    case ServiceOp::kWriteBack:
      return WriteBack(session, message);
    case ServiceOp::kGrant:
      return GrantAnew(session, command);
    case ServiceOp::kClose:
      session.closing = true;
      return;
  }
}

void Service::WriteBack(Session& session, std::span<const std::byte> message) {
  WriteCommand what;
  if (message.size() < sizeof(what)) return;
  std::memcpy(&what, message.data(), sizeof(what));
  if (session.page == nullptr) {
    session.page_bytes.resize(kTestStagingSize);
    auto page = session.connection->RegisterMessages(session.page_bytes);
    REMORA_CHECK(page.ok());
    session.page = *std::move(page);
  }
  // Only one of these at a time: its answer is the sign that its bytes may be overwritten.
  const std::size_t size = std::min<std::size_t>(what.command.b, kTestStagingSize);
  std::copy_n(session.staging->bytes().begin(), size, session.page_bytes.begin());
  const Sge from = MakeSge(*session.page, 0, size);
  write_back_ = session.connection->PostWritev(std::span(&from, 1), what.region, what.command.a);
  if (write_back_.ok() && session.connection->status().ok()) Reply(session, message);
}

void Service::GrantAnew(Session& session, const ServiceCommand& command) {
  session.grant.reset();
  auto grant = session.connection->GrantWrite(*region_memory_, command.a, command.b);
  REMORA_CHECK(grant.ok() || !session.connection->status().ok());
  if (!grant.ok()) return;
  session.grant = *std::move(grant);
  Reply(session, std::as_bytes(std::span(&session.grant->remote(), 1)));
}

std::vector<std::uint32_t> Service::LocalKeys() const {
  std::vector<std::uint32_t> keys;
  for (const auto& [connection, session] : sessions_) {
    keys.push_back(session->staging->local_key());
    if (session->grant != nullptr) keys.push_back(session->grant->local_key());
  }
  return keys;
}

void Service::RevokeGrants() {
  for (auto& [connection, session] : sessions_) session->grant.reset();
}

void Service::DisconnectAll() {
  for (auto& [connection, session] : sessions_) connection->Disconnect();
  listener_->AwaitEnds();
  for (auto& [connection, session] : sessions_) {
    session->grant.reset();
    session->messages.reset();
    session->staging.reset();
  }
  listener_->AwaitEnds();
}

void Service::Reply(Session& session, std::span<const std::byte> message) {
  // A client has at most limits.receives messages unanswered, so this buffer's last SEND is long done.
  const std::size_t offset = (limits_.receives + session.sent++ % limits_.sends) * kMaxMessageSize;
  std::copy(message.begin(), message.end(), session.messages->bytes().subspan(offset).begin());
  const absl::Status status =
      session.connection->PostSend(0, MakeSge(*session.messages, offset, message.size()));
  REMORA_CHECK(status.ok() || !session.connection->status().ok());
}

absl::StatusOr<std::unique_ptr<ServiceThread>> ServiceThread::Start(const Address& address,
                                                                    const QueueLimits& limits,
                                                                    const Clock& clock, MemoryWindows windows,
                                                                    const std::shared_ptr<ServerTls>& tls) {
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  REMORA_CHECK(wake_fd >= 0);
  std::unique_ptr<ServiceThread> self(new ServiceThread(wake_fd, clock));
  self->thread_ = std::thread(
      [raw = self.get(), address, limits, windows, tls] { raw->Run(address, limits, windows, tls); });
  if (absl::Status status = self->started_.get_future().get(); !status.ok()) return status;
  return self;
}

void ServiceThread::Run(const Address& address, const QueueLimits& limits, MemoryWindows windows,
                        const std::shared_ptr<ServerTls>& tls) {
  absl::StatusOr<std::unique_ptr<Service>> service = Service::Start(address, limits, clock_, windows, tls);
  if (!service.ok()) return started_.set_value(service.status());
  address_ = (*service)->address();
  service_ = service->get();
  started_.set_value(absl::OkStatus());
  while (!stopping_) {
    (*service)->Serve(wake_fd_);
    eventfd_t ignored;
    eventfd_read(wake_fd_, &ignored);
    if (const auto* task = task_.load()) {
      (*task)(**service);
      task_ = nullptr;
      task_.notify_one();
    }
  }
}

ServiceThread::~ServiceThread() {
  stopping_ = true;
  eventfd_write(wake_fd_, 1);
  thread_.join();
  close(wake_fd_);
}

void ServiceThread::Do(const std::function<void(Service&)>& task) {
  task_ = &task;
  eventfd_write(wake_fd_, 1);
  task_.wait(&task);
}

bool ServiceThread::Await(const std::function<bool(Service&)>& condition) {
  const TimePoint deadline = clock_.Now() + kPatience;
  for (bool met = false; clock_.Now() < deadline; std::this_thread::yield()) {
    Do([&](Service& service) { met = condition(service); });
    if (met) return true;
  }
  return false;
}

bool ServiceThread::AwaitSleep() {
  const TimePoint deadline = clock_.Now() + kPatience;
  while (!service_->asleep()) {
    if (clock_.Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace remora::rdma
