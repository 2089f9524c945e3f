// A primary and followers, as real servers in this process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "server/monitoring/log_events.h"
#include "store/base/mutex.h"
#include "tests/support/patience.h"
#include "tests/support/server_thread.h"

namespace remora {

/// Servers over the transport of the parameter, with short leases.
class ReplicasFixture : public testing::TestWithParam<rdma::TransportKind> {
 protected:
  void SetUp() override {
    if (GetParam() != rdma::TransportKind::kVerbs) return;
    if (const auto host = VerbsHost(); !host.ok()) GTEST_SKIP() << host.status().message();
  }

  /// The lines of a server's log. Any thread.
  class Events {
   public:
    void Add(LogEvent event, std::string_view line) {
      const MutexLock lock(mutex_);
      lines_.emplace_back(event, line);
    }
    /// Waits for a line of this event with this text.
    bool Await(LogEvent event, std::string_view text) const {
      const auto deadline = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
      while (std::chrono::steady_clock::now() < deadline) {
        if (Has(event, text)) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return false;
    }

   private:
    bool Has(LogEvent event, std::string_view text) const {
      const MutexLock lock(mutex_);
      return std::ranges::any_of(lines_, [&](const auto& line) {
        return line.first == event && line.second.find(text) != std::string::npos;
      });
    }

    mutable Mutex mutex_;
    std::vector<std::pair<LogEvent, std::string>> lines_ ABSL_GUARDED_BY(mutex_);
  };

  /// A server of a test: its address and its data stay over restarts.
  struct Member {
    std::string name;
    rdma::Address address;
    std::shared_ptr<Events> events = std::make_shared<Events>();
    std::unique_ptr<ServerThread> server{};
  };

  Member MakeMember(const std::string& name) {
    return {.name = name, .address = FreshAddress(GetParam(), dir_.path())};
  }
  std::string DataOf(const Member& member) const { return dir_.path() + "/" + member.name + ".data"; }
  void Start(Member& member, bool follows, const std::vector<const Member*>& followers = {},
             Durability durability = Durability::kLogged) {
    ServerOptions options;
    options.store.memory_size = std::size_t{16} << 20;
    options.store.durability = durability;
    options.store.data_dir = DataOf(member);
    options.store.commit_log_bytes = std::uint64_t{64} << 20;
    options.store.loading = Loading::kInBackground;
    options.store.ordered_index = has_order_;
    options.max_clients = 8;
    options.replication.follows = follows;
    options.replication.lease_time = lease_time_;
    options.log = [events = member.events](LogEvent event, std::string_view line) {
      events->Add(event, line);
    };
    for (const Member* const follower : followers) {
      options.replication.followers.push_back({.address = follower->address});
    }
    auto started = ServerThread::Start(options, member.address);
    ASSERT_TRUE(started.ok()) << started.status();
    member.server = *std::move(started);
  }
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const Member& member, bool is_admin = false) {
    ClientOptions options{.connect_timeout = std::chrono::seconds(30), .timeout = std::chrono::seconds(60)};
    options.admin_connection = is_admin;
    return Client::Connect(member.server->address(), options);
  }
  /// Returns a client once the server serves.
  static std::unique_ptr<Client> Await(const Member& member) {
    const auto deadline = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
    while (std::chrono::steady_clock::now() < deadline) {
      auto client = Connect(member);
      if (client.ok()) return *std::move(client);
      EXPECT_TRUE(absl::IsUnavailable(client.status())) << client.status();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "it does not serve";
    return nullptr;
  }
  static std::uint64_t Logged(const Member& member) {
    return member.server->server().store().Read(Metric::kCommitGroups);
  }
  /// Waits until the server has logged more groups than so many.
  static void AwaitLogged(const Member& member, std::uint64_t before) {
    const auto deadline = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
    while (Logged(member) == before && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_GT(Logged(member), before);
  }
  static std::string Get(Client& client, const std::string& key) {
    std::string value;
    const absl::Status status = client.Get(key, &value);
    return status.ok() ? value : std::string(absl::StatusCodeToString(status.code()));
  }
  static absl::StatusOr<Promotion> Promote(const Member& member) {
    auto admin = Connect(member, /*is_admin=*/true);
    if (!admin.ok()) return admin.status();
    return (*admin)->Promote();
  }

  const TempDir dir_;
  std::chrono::milliseconds lease_time_{400};
  bool has_order_ = false;  // the servers have an ordered index
};

}  // namespace remora
