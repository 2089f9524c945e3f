#include "server/memory/memory_budget.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/connection/client_session.h"
#include "store/format/memory/layout.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

std::vector<rdma::Address> Addresses(const std::vector<std::string>& texts) {
  std::vector<rdma::Address> addresses;
  for (const std::string& text : texts) addresses.push_back(rdma::ParseAddress(text).value());
  return addresses;
}

class MemoryPlanTest : public testing::Test {
 protected:
  absl::StatusOr<MemoryPlan> Plan(std::size_t memory, std::optional<std::uint32_t> max_clients = {}) {
    return PlanMemory(memory, max_clients, addresses_, {}, ClientSession::MaxRegisteredBytes());
  }

  std::vector<rdma::Address> addresses_ = Addresses({"local:///tmp/socket"});
};

TEST_F(MemoryPlanTest, TakesNoMoreThanIsGivenAndWastesLessThanASegment) {
  for (std::size_t memory = 18 * kMiB; memory < 64 * 1024 * kMiB; memory += memory / 7) {
    for (const std::optional<std::uint32_t> clients : {std::optional<std::uint32_t>(), {1}, {2}}) {
      const absl::StatusOr<MemoryPlan> plan = Plan(memory, clients);
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_LE(plan->bytes(), memory);
      ASSERT_GT(plan->bytes() + kSegmentSize, memory);
      ASSERT_EQ(plan->region_size, RegionSize(plan->region_size).value());
      if (clients) {
        ASSERT_EQ(plan->max_clients, *clients);
      }
    }
  }
}

TEST_F(MemoryPlanTest, KeepsAnEighthForClientsButSpaceForSomeAndNotMoreThanMany) {
  const MemoryPlan plan = Plan(256 * kMiB).value();
  const std::size_t eighth = 32 * kMiB;
  EXPECT_LE(plan.max_clients * plan.client_bytes, eighth);
  EXPECT_GT((plan.max_clients + 1) * plan.client_bytes, eighth);
  EXPECT_EQ(Plan(kMinMemorySize + 2 * kMiB - kMiB / 4).value().max_clients, 4u);
  EXPECT_EQ(Plan(1024 * kMiB * 8).value().max_clients, 512u);
}

TEST_F(MemoryPlanTest, ALittleMoreThanTheLeastGoesToClientsOnlyWhereTheStoreCanSpareIt) {
  // An eighth would be more than what is above the store's least.
  const MemoryPlan plan = Plan(18 * kMiB + 512 * 1024).value();
  EXPECT_EQ(plan.region_size, kMinMemorySize);
  EXPECT_GT(plan.max_clients, 4u);
}

TEST_F(MemoryPlanTest, SaysWhatWouldDoWhereTheStoreGetsTooLittle) {
  for (const std::size_t memory : {std::size_t{0}, std::size_t{1}, kMinMemorySize, 64 * kMiB}) {
    const std::uint32_t clients = memory == 64 * kMiB ? 200 : 4;
    const absl::Status status = Plan(memory, clients).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const std::string text(status.message());
    const std::size_t at = text.find("give it ");
    ASSERT_NE(at, std::string::npos) << text;
    const std::size_t enough = std::stoull(text.substr(at + 8));
    EXPECT_TRUE(Plan(enough, clients).ok()) << text;
    EXPECT_FALSE(Plan(enough - 1, clients).ok()) << text;
  }
  EXPECT_FALSE(Plan(kMinMemorySize).ok());
  EXPECT_EQ(Plan(kMaxMemorySize * 2).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MemoryPlanTest, CountsTheDearestTransportForEachClientAndEachListenerForItself) {
  const MemoryPlan local = Plan(64 * kMiB).value();
  addresses_ = Addresses({"verbs://127.0.0.1:7470"});
  const MemoryPlan verbs = Plan(64 * kMiB).value();
  EXPECT_LT(verbs.client_bytes, local.client_bytes);
  EXPECT_GT(verbs.listener_bytes, 2 * verbs.client_bytes) << "what is registered for those to come";
  EXPECT_GT(verbs.max_clients, local.max_clients);
  addresses_ = Addresses({"verbs://127.0.0.1:7470", "local:///tmp/a", "local:///tmp/b"});
  const MemoryPlan all = Plan(64 * kMiB).value();
  EXPECT_EQ(all.client_bytes, local.client_bytes);
  EXPECT_EQ(all.listener_bytes, 2 * local.listener_bytes + verbs.listener_bytes);
}

}  // namespace
}  // namespace remora
