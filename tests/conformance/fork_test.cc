// Clients, and a child of their process that was forked.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/conformance/async_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/waiting_child.h"

namespace remora {
namespace {

class Fork : public Async {
 protected:
  /// Ends with the number of the first expression that is false.
  static int Child(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

INSTANTIATE_TEST_SUITE_P(On, Fork,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Fork, TheClientIsTheParents) {
  if (kAddressSanitizer)
    GTEST_SKIP() << "the child may wait for a lock of ASan's allocator that a thread held as it was forked";
  START();
  ConnectAsync();
  ASSERT_CODE(kOk, Put("key", "value"));
  Outcome in_flight;
  ASSERT_TRUE(async_->Put("other", "value", Into(in_flight)).ok());
  const int failed = Child([&] {
    Client& client = *kv_->client();
    const std::array<std::string_view, 1> keys{"key"};
    std::array<GetResult, 1> got;
    const std::array<PutRequest, 1> puts{PutRequest{.key = "key", .value = "child"}};
    std::array<PutResult, 1> put;
    if (!absl::IsFailedPrecondition(client.Get("key").status())) return 1;
    if (!absl::IsFailedPrecondition(client.Put("key", "child"))) return 2;
    if (!absl::IsFailedPrecondition(client.MultiGet(keys, got))) return 3;
    if (!absl::IsFailedPrecondition(client.MultiPut(puts, put))) return 4;
    if (!absl::IsFailedPrecondition(client.Count().status())) return 5;
    if (!absl::IsFailedPrecondition(async_->Get("key", {}).status())) return 6;
    if (async_->Poll() != 0) return 7;
    if (!absl::IsFailedPrecondition(async_->WaitAll(Soon()))) return 8;
    // Of its own, it has one.
    if (GetParam() == DeploymentKind::kVerbs) return 0;  // if its device can be forked
    absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> connection = deployment_->Dial();
    if (!connection.ok()) return 9;
    const auto own = Client::Connect(*std::move(connection), {}, deployment_->clock());
    if (!own.ok()) return 10;
    return (*own)->Get("key").value_or("") == "value" && (*own)->Put("child", "own").ok() ? 0 : 11;
  });
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(Get("key"), "value");
  EXPECT_CODE(kOk, Put("key", "again"));
  EXPECT_EQ(Get("key"), "again");
  WaitAll();
  EXPECT_OUTCOME(kOk, in_flight);
  if (GetParam() != DeploymentKind::kVerbs) {
    EXPECT_EQ(Get("child"), "own");
  }
}

/// A fork while another thread of the parent uses clients.
class ForkBesideAThread : public Fork {};

INSTANTIATE_TEST_SUITE_P(On, ForkBesideAThread, testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

// The parent's mirror may be held by a thread that the child does not have. So the child has one of its own.
TEST_P(ForkBesideAThread, AChildMakesAMirrorOfItsOwn) {
  if (kAddressSanitizer)
    GTEST_SKIP() << "the child may wait for a lock of ASan's allocator that a thread held as it was forked";
  const ClientOptions mirrored{.index_mirror_bytes = std::size_t{1} << 20};
  START({}, mirrored);
  for (int i = 0; i < 50; ++i) ASSERT_CODE(kOk, Put("key " + std::to_string(i), "value"));
  std::atomic<bool> is_over = false;
  std::thread busy([&] {
    while (!is_over) {
      const std::unique_ptr<KeyValue> client = Connect(mirrored);
      ASSERT_EQ(Get(*client, "key 7"), "value");
    }
  });
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    const int failed = Child([&] {
      if (!absl::IsFailedPrecondition(kv_->client()->Get("key 7").status())) return 1;
      const auto own = deployment_->Connect(mirrored);
      if (!own.ok()) return 2;
      const ClientCounters& counters = (*own)->client()->counters();
      if (counters.mirror_reads == 0) return 3;
      return Get(**own, "key 7") == "value" && counters.mirror_hits == 1 ? 0 : 4;
    });
    EXPECT_EQ(failed, 0);
  }
  is_over = true;
  busy.join();
  EXPECT_EQ(Get("key 7"), "value");
}

// Memory that the device writes to, and reads from, stays the parent's own while a child has copies of it.
TEST_P(Fork, TheParentGoesOnWhileAChildLives) {
  START({.memory_size = std::size_t{32} << 20});
  ConnectAsync();
  Client& client = *kv_->client();
  std::vector<std::byte> memory(std::size_t{1} << 20);
  const auto buffer = client.Register(memory);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  ASSERT_CODE(kOk, Put("key", "value"));
  WaitingChild child;
  for (int i = 0; i < 20; ++i) {
    // Every page that is registered is written to by this process, then by the device.
    const auto fill = static_cast<std::byte>(i);
    std::fill(memory.begin(), memory.end(), fill);
    const std::string value(i % 4 == 0 ? std::size_t{700'000} : std::size_t{100'000},
                            static_cast<char>('a' + i));
    ASSERT_CODE(kOk, Put("key", value));
    EXPECT_TRUE(Get("key") == value) << i;
    const auto size = client.Get("key", **buffer);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_TRUE(std::string_view(reinterpret_cast<const char*>(memory.data()), *size) == value) << i;
    EXPECT_EQ(memory.back(), fill);
    EXPECT_OUTCOME(kOk, AsyncPut("async", value));
    EXPECT_TRUE(AsyncGet("async").text() == value) << i;
  }
}

}  // namespace
}  // namespace remora
