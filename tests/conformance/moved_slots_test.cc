// Servers that have a part of the slots, and clients with an old topology: nothing is done at the wrong
// server, and the client finds the owner.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/async_client.h"
#include "client/cluster/cluster_client.h"
#include "store/base/moved.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"
#include "store/format/wire/write_batch.h"
#include "tests/conformance/cluster_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

/// Two servers with half of the slots each, and a file that says so.
class MovedSlots : public Clusters {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StartServers(2));
    Give(0);
    WriteFile(0);
  }
  /// Starts the servers anew with the slots of the even division (0), or the other way round (1). They keep
  /// their data, and know their clients.
  void Give(std::size_t turn) {
    for (std::size_t i = 0; i < 2; ++i) {
      ClusterSlots slots;
      const bool is_first = i == turn;
      slots.Add(is_first ? 0 : kSlots / 2, is_first ? kSlots / 2 - 1 : kSlots - 1);
      options_[i].slots = std::make_shared<const ClusterSlots>(slots);
      StopServer(i);
      ASSERT_NO_FATAL_FAILURE(StartServer(i));
    }
  }
  /// Replaces the file by that of such a division.
  void WriteFile(std::size_t turn) {
    std::string text = "remora-topology 2\ncluster " + ClusterText(cluster_) + "\n";
    for (std::size_t i = 0; i < 2; ++i) {
      text += "shard " + std::to_string(i) + (i == turn ? " 0-8191 " : " 8192-16383 ") +
              addresses_[i].ToString() + "\n";
    }
    std::ofstream(path_ + ".new") << text;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }
  void Connect(milliseconds timeout = std::chrono::seconds(20)) {
    const absl::StatusOr<Topology> topology = Topology::Read(path_);
    ASSERT_CODE(kOk, topology.status());
    auto client = ClusterClient::Connect(*topology, {.timeout = timeout}, clock_);
    ASSERT_CODE(kOk, client.status());
    kv_ = *std::move(client);
  }
  std::unique_ptr<Client> ClientOf(std::size_t shard) {
    auto client = Client::Connect(addresses_[shard].ToString(), {}, clock_);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  /// Returns the first key NAME<number> in the lower half of the slots, or in the upper one.
  static std::string KeyIn(bool lower, const std::string& name) {
    for (int i = 0;; ++i) {
      std::string key = name + std::to_string(i);
      if ((SlotOf(key) < kSlots / 2) == lower) return key;
    }
  }

  const std::string path_ = directory_.path() + "/topology";
};

INSTANTIATE_TEST_SUITE_P(On, MovedSlots,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(MovedSlots, AServerDoesNothingForKeysOfOthers) {
  const std::unique_ptr<Client> client = ClientOf(0);
  ASSERT_NE(client, nullptr);
  const std::string own = KeyIn(true, "own"), other = KeyIn(false, "other");
  ASSERT_CODE(kOk, client->Put(own, "1"));
  const std::string large(kMaxSmallValueSize + 1, 'x');
  WriteBatch batch;
  batch.Put(other, "1");
  for (const absl::Status& status :
       {client->Put(other, "1"), client->Put(other, "1", {.condition = Condition::Absent()}),
        client->Put(other, large), client->Delete(other), client->Touch(other, milliseconds(1000)),
        client->Increment(other, 1).status(), client->Append(other, "1").status(), client->Apply(batch)}) {
    EXPECT_TRUE(IsMoved(status)) << status;
  }
  const std::vector<PutRequest> requests = {{.key = own, .value = "2"}, {.key = other, .value = "2"}};
  std::vector<PutResult> results(requests.size());
  ASSERT_CODE(kOk, client->MultiPut(requests, results));
  EXPECT_CODE(kOk, results[0].status);
  EXPECT_TRUE(IsMoved(results[1].status)) << results[1].status;
  EXPECT_EQ(client->Count().value_or(0), 1u);
  EXPECT_EQ(client->Get(own).value_or("none"), "2");
  EXPECT_EQ(servers_[0]->server().store().Read(Metric::kMovedRequests), 9u);
}

TEST_P(MovedSlots, AnAsynchronousClientIsToldToo) {
  auto client = AsyncClient::Connect(addresses_[0].ToString(), {}, {}, clock_);
  ASSERT_CODE(kOk, client.status());
  const std::string other = KeyIn(false, "other");
  absl::Status put;
  ASSERT_TRUE((*client)->Put(other, "1", {}, [&](const AsyncResult& result) { put = result.status; }).ok());
  while ((*client)->in_flight() > 0) (*client)->Poll();
  EXPECT_TRUE(IsMoved(put)) << put;
}

TEST_P(MovedSlots, AClientWithAnOldTopologyFindsTheOwner) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  const std::string lower = KeyIn(true, "key"), upper = KeyIn(false, "key");
  ASSERT_CODE(kOk, kv_->Put(lower, "1"));
  EXPECT_EQ(ClientOf(0)->Count().value_or(9), 1u);
  ASSERT_NO_FATAL_FAILURE(Give(1));
  WriteFile(1);
  ASSERT_CODE(kOk, kv_->Put(lower, "2"));
  EXPECT_EQ(kv_->topology().ShardOf(lower), 1u);
  EXPECT_EQ(ClientOf(1)->Get(lower).value_or("none"), "2");
  EXPECT_EQ(kv_->Increment(upper, 5).value_or(0), 5);
  EXPECT_EQ(ClientOf(0)->Get(upper).value_or("none"), "5");
}

TEST_P(MovedSlots, EachKindOfWriteFindsTheOwner) {
  const std::string key = KeyIn(true, "key"), tagged = "{" + key + "}", other = KeyIn(false, "key");
  WriteBatch batch;
  batch.Put(key, "1");
  batch.Put(tagged, "1");
  std::vector<PutResult> results(2);
  const std::vector<PutRequest> both = {{.key = key, .value = "3"}, {.key = other, .value = "3"}};
  std::size_t turn = 0;
  const auto after_a_swap = [&](std::string_view value, const auto& write) {
    turn = 1 - turn;
    ASSERT_NO_FATAL_FAILURE(Connect());
    ASSERT_NO_FATAL_FAILURE(Give(turn));
    WriteFile(turn);
    ASSERT_CODE(kOk, write());
    EXPECT_EQ(ClientOf(turn)->Get(key).value_or("none"), value);
  };
  after_a_swap("1", [&] { return kv_->Apply(batch); });
  after_a_swap("2", [&] { return kv_->Append(key, "2").status(); });
  const std::string large(kMaxSmallValueSize + 1, 'x');
  after_a_swap(large, [&] { return kv_->Put(key, large); });
  after_a_swap("3", [&] {
    const absl::Status status = kv_->MultiPut(both, results);
    EXPECT_CODE(kOk, results[0].status);
    EXPECT_CODE(kOk, results[1].status);
    return status;
  });
}

// The former owner still has the record on its disk, and shows it to nobody.
TEST_P(MovedSlots, EachKindOfReadFindsTheOwner) {
  const std::string key = KeyIn(true, "key"), other = KeyIn(false, "key"), none = KeyIn(true, "none");
  ASSERT_NO_FATAL_FAILURE(Connect());
  ASSERT_CODE(kOk, kv_->Put(key, "old"));
  ASSERT_CODE(kOk, kv_->Put(other, "other"));
  ASSERT_NO_FATAL_FAILURE(Give(1));
  ASSERT_CODE(kOk, ClientOf(1)->Put(key, "new"));
  const auto with_an_old_topology = [&](const auto& read) {
    WriteFile(0);
    ASSERT_NO_FATAL_FAILURE(Connect());
    WriteFile(1);
    read();
  };
  with_an_old_topology([&] { EXPECT_EQ(kv_->Get(key).value_or("none"), "new"); });
  with_an_old_topology([&] {
    std::string seen;
    EXPECT_CODE(kOk, kv_->Visit(key, [&](std::string_view value) { seen = value; }));
    EXPECT_EQ(seen, "new");
  });
  with_an_old_topology([&] { EXPECT_TRUE(kv_->Exists(key).value_or(false)); });
  with_an_old_topology([&] { EXPECT_FALSE(kv_->Exists(none).value_or(true)); });
  with_an_old_topology([&] { EXPECT_CODE(kOk, kv_->Ttl(key).status()); });
  with_an_old_topology([&] {
    const std::vector<std::string_view> keys = {none, key, other};
    std::vector<GetResult> results(keys.size());
    ASSERT_CODE(kOk, kv_->MultiGet(keys, results));
    EXPECT_CODE(kNotFound, results[0].status);
    EXPECT_EQ(results[1].value, "new");
    EXPECT_CODE(kNotFound, results[2].status) << "its new owner got no copy";
  });
  EXPECT_EQ(kv_->Count().value_or(0), 1u);
  EXPECT_EQ(ClientOf(0)->Count().value_or(9), 0u);
}

TEST_P(MovedSlots, AClientForgetsTheSlotsOfAnEarlierConnection) {
  const std::string none = KeyIn(true, "none");
  const std::unique_ptr<Client> client = ClientOf(0);
  ASSERT_NE(client, nullptr);
  EXPECT_CODE(kNotFound, client->Get(none).status());
  EXPECT_CODE(kNotFound, client->Get(none).status());
  EXPECT_EQ(client->counters().locates, 1u);
  ASSERT_NO_FATAL_FAILURE(Give(1));
  const absl::Status moved = client->Get(none).status();
  EXPECT_TRUE(IsMoved(moved)) << moved;
}

TEST_P(MovedSlots, ACallWaitsForTheFile) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  const std::string key = KeyIn(true, "key");
  ASSERT_CODE(kOk, kv_->Put(key, "1"));
  ASSERT_NO_FATAL_FAILURE(Give(1));
  std::thread writer([&] { EXPECT_CODE(kOk, kv_->Put(key, "2")); });
  WriteFile(1);
  writer.join();
  EXPECT_EQ(ClientOf(1)->Get(key).value_or("none"), "2");
}

TEST_P(MovedSlots, ACallWithoutAnOwnerEnds) {
  ASSERT_NO_FATAL_FAILURE(Connect(milliseconds(300)));
  ASSERT_NO_FATAL_FAILURE(Give(1));
  const absl::Status status = kv_->Put(KeyIn(true, "key"), "1");
  EXPECT_TRUE(IsMoved(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("is another server's"));
}

TEST_P(MovedSlots, AFileWithOtherShardsIsNotTaken) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  ASSERT_NO_FATAL_FAILURE(Give(1));
  std::ofstream(path_) << "remora-topology 2\ncluster " << ClusterText(cluster_) << "\nshard a 0-16383 "
                       << addresses_[1].ToString() << "\n";
  EXPECT_TRUE(IsMoved(kv_->Put(KeyIn(true, "key"), "1")));
  EXPECT_EQ(kv_->size(), 2u);
}

}  // namespace
}  // namespace remora
