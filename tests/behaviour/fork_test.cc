// Clients, and a child of their process that was forked.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/behaviour/async_fixture.h"

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

INSTANTIATE_TEST_SUITE_P(On, Fork, testing::Values(DeploymentKind::kLocal, DeploymentKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Fork, TheClientIsTheParents) {
  START();
  ConnectAsync();
  ASSERT_CODE(kOk, Put("key", "value"));
  Outcome under_way;
  ASSERT_TRUE(async_->Put("other", "value", Into(under_way)).ok());
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
    absl::StatusOr<std::unique_ptr<rdma::Connection>> connection = deployment_->Dial();
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
  EXPECT_OUTCOME(kOk, under_way);
  if (GetParam() == DeploymentKind::kLocal) {
    EXPECT_EQ(Get("child"), "own");
  }
}

}  // namespace
}  // namespace remora
