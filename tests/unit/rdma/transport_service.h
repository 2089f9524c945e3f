// The server's side of the transport suite: a small scripted service over any transport.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tls.h"
#include "rdma/transport.h"

namespace remora::rdma {

/// The region that clients READ: byte i is PatternByte(i).
inline constexpr std::size_t kTestRegionSize = std::size_t{2} << 20;
/// Size of the memory that each connection may WRITE.
inline constexpr std::size_t kTestStagingSize = 64 << 10;

inline std::byte PatternByte(std::size_t i) { return static_cast<std::byte>((i * 131 + i / 251) & 0xff); }

/// The client's means for tls:// addresses of the service: a token, whose secret the service knows.
inline ClientTls TestTls() { return {.files = {}, .secret = "the secret of the suite"}; }

/// The server's.
absl::StatusOr<std::shared_ptr<ServerTls>> TestServerTls();

/// FNV-1a, to compare bytes that are too many for a message.
std::uint64_t HashOf(std::span<const std::byte> bytes);

/// Treatment of a connection by the service: the first byte of its request data.
enum class ServiceMode : std::uint8_t {
  kServe = 1,
  kReject = 2,        // rejects with kMaxRejectData bytes of PatternByte
  kTinyReceives = 3,  // posts receives of 8 bytes
};

/// The service accepts with kMaxAcceptData bytes: this, the request data as the service saw it
/// (kMaxConnectData bytes), then PatternByte.
struct Welcome {
  RemoteRegion region;
  RemoteRegion staging;
};

/// The first byte of a message. The rest of the message is ignored, except where stated.
enum class ServiceOp : std::uint8_t {
  kEcho = 1,          // sends the message back
  kHashStaging = 2,   // ServiceCommand; replies with HashOf(staging buffer[a, a + b)) as 8 bytes
  kCountWakeUps = 3,  // replies with the number of times that the service was woken, as 8 bytes
  kClose = 4,         // destroys the connection
  kWriteBack =
      5,  // WriteCommand; WRITEs the staging buffer's first bytes to where it says, then replies as kEcho
  kGrant = 6,  // ServiceCommand; takes back what was granted before, and replies with the RemoteRegion of
               // bytes [a, a + b) of the region, granted to this connection
};
struct ServiceCommand {
  ServiceOp op{};
  std::uint8_t reserved[7] = {};
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};

struct WriteCommand {
  ServiceCommand command;  // a: offset in `region`; b: how many bytes
  RemoteRegion region;
};

/// A server that treats each connection and message as its first byte says.
///
/// Thread safety: none, but for asleep().
class Service {
 public:
  static absl::StatusOr<std::unique_ptr<Service>> Start(const Address& address, const QueueLimits& limits,
                                                        const Clock& clock,
                                                        MemoryWindows windows = MemoryWindows::kAuto,
                                                        std::shared_ptr<ServerTls> tls = nullptr);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Address& address() const { return listener_->address(); }
  bool binds_writes() const { return listener_->binds_writes(); }
  bool polling_pays() const { return listener_->PollingPays(); }
  Listener& listener() { return *listener_; }
  /// Implements Listener::ServeBy. Before the first client.
  void ServeBy(std::function<bool()> serve) { listener_->ServeBy(std::move(serve)); }
  /// Serves until `stop_fd` is readable. Goes to sleep as soon as it has nothing to do.
  void Serve(int stop_fd);
  /// Does what a busy service does in this time.
  void WorkTimes(std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) Work();
  }

  std::size_t session_count() const { return sessions_.size(); }
  std::uint64_t disconnects() const { return disconnects_; }
  std::uint64_t wake_ups() const { return wake_ups_; }
  /// Returns the listener's lines about rejected clients.
  const std::vector<std::string>& rejections() const { return rejections_; }
  std::span<const std::byte> region_bytes() const { return region_memory_->bytes(); }
  /// Returns keys of staging buffers and grants: the keys that only this side should be able to
  /// use.
  std::vector<std::uint32_t> LocalKeys() const;
  /// Takes back all that is granted.
  void RevokeGrants();
  /// Disconnects all, and then takes back all that was registered for them. Their connections stay.
  void DisconnectAll();
  /// Returns the result of the PostWritev of the last kWriteBack.
  const absl::Status& write_back() const { return write_back_; }
  /// Returns whether nothing was left to do after Arm, and nothing has been done since.
  bool asleep() const { return asleep_.load(); }

 private:
  struct Session;
  explicit Service(const QueueLimits& limits);
  bool Work();
  void Greet(std::unique_ptr<ServerConnection> connection);
  absl::Status Admit(std::unique_ptr<ServerConnection> connection, ServiceMode mode);
  void Handle(const Completion& completion);
  void Obey(Session& session, std::span<const std::byte> message);
  void WriteBack(Session& session, std::span<const std::byte> message);
  void GrantAnew(Session& session, const ServiceCommand& command);
  void Reply(Session& session, std::span<const std::byte> message);

  const QueueLimits limits_;
  std::unique_ptr<SharedMemory> region_memory_;
  std::unique_ptr<Listener> listener_;
  RemoteRegion region_;
  std::map<Connection*, std::unique_ptr<Session>> sessions_;
  std::uint64_t disconnects_ = 0;
  std::vector<std::string> rejections_;
  std::uint64_t wake_ups_ = 0;
  absl::Status write_back_;
  std::atomic<bool> asleep_ = false;
};

/// A Service on a thread of its own.
class ServiceThread {
 public:
  /// Returns when the service listens. `tls`: for tls:// addresses; null: that of the suite (TestTls).
  static absl::StatusOr<std::unique_ptr<ServiceThread>> Start(
      const Address& address, const QueueLimits& limits, const Clock& clock,
      MemoryWindows windows = MemoryWindows::kAuto, const std::shared_ptr<ServerTls>& tls = nullptr);
  /// Destroys the service, on its thread.
  ~ServiceThread();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  const Address& address() const { return address_; }
  /// Runs `task` on the service's thread and returns when it is done.
  void Do(const std::function<void(Service&)>& task);
  /// Returns when `condition` holds on the service's thread, or false after many seconds.
  bool Await(const std::function<bool(Service&)>& condition);
  /// Returns when the service sleeps, or false after many seconds.
  bool AwaitSleep();

 private:
  ServiceThread(int wake_fd, const Clock& clock) : wake_fd_(wake_fd), clock_(clock) {}
  void Run(const Address& address, const QueueLimits& limits, MemoryWindows windows,
           const std::shared_ptr<ServerTls>& tls);

  const int wake_fd_;
  const Clock& clock_;
  Address address_;  // these two are set before started_
  Service* service_ = nullptr;
  std::atomic<const std::function<void(Service&)>*> task_ = nullptr;
  std::atomic<bool> stopping_ = false;
  std::promise<absl::Status> started_;
  std::thread thread_;
};

}  // namespace remora::rdma
