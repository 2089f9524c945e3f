// Batches of writes, wherever the store is; and bytes of batches that no client of ours would send.
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "store/format/wire/messages.h"
#include "store/format/wire/write_batch.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/hand_client.h"

namespace remora {
namespace {

class Batches : public Behaviour {};
INSTANTIATE_TEST_SUITE_P(On, Batches,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Batches, AllOfOneIsDone) {
  START();
  ASSERT_CODE(kOk, Put("gone", "value"));
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("b", "");
  batch.Delete("gone");
  batch.Put("c", "3", {.ttl = std::chrono::hours(1), .condition = Condition::Absent()});
  EXPECT_EQ(batch.count(), 4u);
  std::uint64_t version = 0;
  ASSERT_CODE(kOk, kv_->Apply(batch, &version));
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "");
  EXPECT_CODE(kNotFound, GetStatus("gone"));
  std::uint64_t last = 0;
  std::string value;
  ASSERT_CODE(kOk, kv_->Get("c", &value, &last));
  EXPECT_EQ(last, version + 3);
  EXPECT_TRUE(kv_->Ttl("c")->has_value());
  EXPECT_FALSE(kv_->Ttl("a")->has_value());
  batch.Clear();
  EXPECT_CODE(kOk, kv_->Apply(batch));
  EXPECT_EQ(store().Read(Metric::kKeys), 3u);
}

TEST_P(Batches, NothingIsDoneWhenOneWriteCannotBe) {
  START();
  ASSERT_CODE(kOk, Put("a", "old"));
  std::uint64_t version = 7;
  WriteBatch batch;
  batch.Put("a", "new");
  batch.Put("b", "new");
  batch.Delete("missing");
  absl::Status status = kv_->Apply(batch, &version);
  EXPECT_CODE(kNotFound, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("write 3 of the batch"));
  batch.Clear();
  batch.Delete("missing");
  status = kv_->Apply(batch, &version);
  EXPECT_CODE(kNotFound, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("write 1 of the batch"));
  batch.Clear();
  batch.Put("b", "new");
  batch.Put("a", "new", {.condition = Condition::Absent()});
  EXPECT_CODE(kAlreadyExists, kv_->Apply(batch, &version));
  batch.Clear();
  batch.Put("b", "new");
  batch.Put("a", "new", {.condition = Condition::Version(kMaxVersion - 1)});
  EXPECT_CODE(kFailedPrecondition, kv_->Apply(batch, &version));
  EXPECT_EQ(version, 7u);
  EXPECT_EQ(Get("a"), "old");
  EXPECT_CODE(kNotFound, GetStatus("b"));
}

TEST_P(Batches, ABatchOutOfBoundsIsRejectedAsAWhole) {
  START();
  const std::string long_key(kMaxKeySize + 1, 'k');
  std::uint64_t version = 0;
  struct Case {
    std::string said;
    std::function<void(WriteBatch&)> add;
  };
  const std::vector<Case> cases{
      {"write 2 of the batch: key: it has 0 bytes; allowed are 1 to 4096",
       [](auto& batch) { batch.Put("", "value"); }},
      {"write 2 of the batch: key: it has 4097 bytes;", [&](auto& batch) { batch.Put(long_key, "value"); }},
      {"write 2 of the batch: key: it has 4097 bytes;", [&](auto& batch) { batch.Delete(long_key); }},
      {"write 2 of the batch: value: it has 262145 bytes, and a batch up to 262144; put it by itself",
       [](auto& batch) { batch.Put("b", std::string(kMaxBatchBytes + 1, 'v')); }},
      {"a batch of 262199 bytes, with 24 for each write; allowed are up to 262144",
       [](auto& batch) { batch.Put("b", std::string(kMaxBatchBytes, 'v')); }},
      {"a batch of 1025 writes; allowed are up to 1024",
       [](auto& batch) {
         while (batch.count() <= kMaxBatchWrites) batch.Put("b", "value");
       }},
      {"write 2 of the batch: condition: no write ever has this version",
       [](auto& batch) { batch.Put("b", "value", {.condition = Condition::Version(0)}); }},
      {"write 2 of the batch: condition: no write ever has this version",
       [](auto& batch) { batch.Delete("b", {.condition = Condition::Version(0)}); }},
      {"write 2 of the batch: ttl: 0 ms; allowed are 1 to ",
       [](auto& batch) { batch.Put("b", "value", {.ttl = std::chrono::milliseconds(0)}); }},
      {"write 2 of the batch: durability: a batch has one for all writes;",
       [](auto& batch) { batch.Put("b", "value", {.durability = Durability::kMemory}); }},
      {"write 2 of the batch: durability: a batch has one for all writes;",
       [](auto& batch) { batch.Delete("b", {.durability = Durability::kMemory}); }},
      {"write 2 of the batch: version: a batch has one;",
       [&](auto& batch) { batch.Put("b", "value", {.version = &version}); }},
  };
  for (const Case& wrong : cases) {
    WriteBatch batch;
    batch.Put("a", "value");
    wrong.add(batch);
    const absl::Status status = kv_->Apply(batch);
    EXPECT_CODE(kInvalidArgument, status);
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(wrong.said));
    batch.Clear();
    EXPECT_EQ(batch.fault(), "");
  }
  EXPECT_EQ(store().Read(Metric::kKeys), 0u);
}

TEST_P(Batches, AreDoneOnlyIfTheirChecksHold) {
  START();
  ASSERT_CODE(kOk, Put("a", "old"));
  std::uint64_t old = 0;
  std::string value;
  ASSERT_CODE(kOk, kv_->Get("a", &value, &old));
  const auto apply = [&](std::string_view key, const Condition& condition, bool writes) {
    WriteBatch batch;
    if (writes) batch.Put("b", "new");
    batch.Check("none", Condition::Absent());
    batch.Check(key, condition);
    return kv_->Apply(batch);
  };
  for (const bool writes : {true, false}) {
    EXPECT_CODE(kAlreadyExists, apply("a", Condition::Absent(), writes));
    EXPECT_CODE(kNotFound, apply("none", Condition::Version(old), writes));
    EXPECT_CODE(kNotFound, apply("none", Condition::Present(), writes));
    EXPECT_CODE(kFailedPrecondition, apply("a", Condition::Version(old + 1000), writes));
    EXPECT_CODE(kNotFound, GetStatus("b"));
  }
  for (const bool writes : {false, true}) {
    EXPECT_CODE(kOk, apply("a", Condition::Version(old), writes));
    EXPECT_CODE(kOk, apply("a", Condition::Present(), writes));
    EXPECT_EQ(GetStatus("b").ok(), writes);
  }
  std::uint64_t version = 0;
  ASSERT_CODE(kOk, kv_->Get("a", &value, &version));
  EXPECT_EQ(version, old) << "a check writes nothing";
  EXPECT_EQ(store().Read(Metric::kKeys), 2u);
  WriteBatch behind;
  behind.Check("a", Condition::Present());
  behind.Put("c", "");
  EXPECT_THAT(std::string(kv_->Apply(behind).message()), testing::HasSubstr("it stands behind a check"));
}

TEST_P(Batches, AKeyMayComeTwice) {
  START();
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("a", "2", {.condition = Condition::Present()});
  ASSERT_CODE(kOk, kv_->Apply(batch));
  EXPECT_EQ(Get("a"), "2");
}

TEST_P(Batches, OfTheLargestSizes) {
  START();
  WriteBatch many;
  for (std::size_t i = 0; i < kMaxBatchWrites; ++i) many.Put("key " + std::to_string(i), std::to_string(i));
  ASSERT_CODE(kOk, kv_->Apply(many));
  for (std::size_t i = 0; i < kMaxBatchWrites; ++i)
    ASSERT_EQ(Get("key " + std::to_string(i)), std::to_string(i));
  WriteBatch large;
  const std::string value(kMaxBatchBytes - sizeof(BatchEntry) - 1, 'v');
  large.Put("k", value);
  ASSERT_EQ(large.bytes().size(), kMaxBatchBytes);
  ASSERT_CODE(kOk, kv_->Apply(large));
  EXPECT_EQ(Get("k"), value);
}

TEST_P(Batches, SurviveARestart) {
  START({.durability = Durability::kLogged});
  ASSERT_CODE(kOk, Put("gone", "value"));
  WriteBatch batch;
  for (int i = 0; i < 20; ++i) batch.Put("key " + std::to_string(i), std::to_string(i));
  batch.Delete("gone");
  ASSERT_CODE(kOk, kv_->Apply(batch));
  Restart();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Get("key " + std::to_string(i)), std::to_string(i));
  EXPECT_CODE(kNotFound, GetStatus("gone"));
}

// Money moves between two accounts in batches whose conditions are the versions that were read. None is lost.
TEST_P(Batches, WithConditionsAreTransactions) {
  START();
  ASSERT_CODE(kOk, Put("a", "1000"));
  ASSERT_CODE(kOk, Put("b", "1000"));
  const int rounds = GetParam() == DeploymentKind::kVerbs ? 30 : 150;
  const auto move = [](KeyValue& kv, int amount) {
    for (;;) {
      std::string from;
      std::string to;
      std::uint64_t from_version = 0;
      std::uint64_t to_version = 0;
      ASSERT_CODE(kOk, kv.Get("a", &from, &from_version));
      ASSERT_CODE(kOk, kv.Get("b", &to, &to_version));
      WriteBatch batch;
      batch.Put("a", std::to_string(std::stoi(from) - amount),
                {.condition = Condition::Version(from_version)});
      batch.Put("b", std::to_string(std::stoi(to) + amount), {.condition = Condition::Version(to_version)});
      const absl::Status status = kv.Apply(batch);
      if (status.ok()) return;
      ASSERT_CODE(kFailedPrecondition, status);
    }
  };
  std::vector<std::unique_ptr<KeyValue>> kvs;
  for (int i = 0; i < 3; ++i) kvs.push_back(Connect());
  if (deployment_->concurrent()) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&move, &kv = *kvs[static_cast<std::size_t>(i)], rounds, i] {
        for (int round = 0; round < rounds; ++round) ASSERT_NO_FATAL_FAILURE(move(kv, i - 1));
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(move(*kvs[static_cast<std::size_t>(i)], i - 1));
    }
  }
  EXPECT_EQ(Get("a"), "1000");
  EXPECT_EQ(Get("b"), "1000");
}

// Readers may rely on the batch's order, and on each key by itself.
TEST_P(Batches, AreSeenInTheirOrder) {
  START();
  if (!deployment_->concurrent()) GTEST_SKIP() << "one thread";
  ASSERT_CODE(kOk, Put("first", "0"));
  ASSERT_CODE(kOk, Put("second", "0"));
  std::atomic<bool> done = false;
  const std::unique_ptr<KeyValue> reader = Connect();
  std::thread reading([&] {
    while (!done.load()) {
      std::string first;
      std::string second;
      ASSERT_CODE(kOk, reader->Get("second", &second));
      ASSERT_CODE(kOk, reader->Get("first", &first));
      ASSERT_GE(std::stoi(first), std::stoi(second));
    }
  });
  const int rounds = GetParam() == DeploymentKind::kVerbs ? 100 : 2000;
  for (int i = 1; i <= rounds && !HasFailure(); ++i) {
    WriteBatch batch;
    batch.Put("first", std::to_string(i));
    batch.Put("second", std::to_string(i));
    EXPECT_CODE(kOk, kv_->Apply(batch));
  }
  done = true;
  reading.join();
}

// --- By hand --------------------------------------------------------------------------------------------

class RemoteBatches : public Behaviour {
 protected:
  /// Returns the server's answer to these bytes.
  ReplyStatus Send(std::string_view bytes, const std::function<void(Request*)>& change = nullptr) {
    auto connection = deployment_->Dial();
    EXPECT_TRUE(connection.ok());
    HandClient client(*std::move(connection), deployment_->clock());
    client.Write(client.hello().staging, 0, bytes);
    Request request = HandClient::MakeRequest(Operation::kBatch, 0, bytes.size());
    request.request_id = 1;
    request.payload_checksum = PayloadChecksum(request, HashKey({}), HashValue(bytes.data(), bytes.size()));
    if (change != nullptr) change(&request);
    const auto answer = client.Ask(request);
    EXPECT_TRUE(answer.has_value());
    return answer.has_value() ? answer->status() : ReplyStatus::kOk;
  }
  static WriteBatch TwoPuts() {
    WriteBatch batch;
    batch.Put("a", "1");
    batch.Put("b", "2");
    return batch;
  }
};
INSTANTIATE_TEST_SUITE_P(On, RemoteBatches,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(RemoteBatches, OneByHandIsDone) {
  START();
  EXPECT_EQ(Send(TwoPuts().bytes()), ReplyStatus::kOk);
  EXPECT_EQ(Get("b"), "2");
}

TEST_P(RemoteBatches, BytesThatLieOrEndTooSoonAreInvalid) {
  START();
  const std::string good(TwoPuts().bytes());
  for (std::size_t size = 1; size < good.size(); ++size) {
    if (size == good.size() / 2) continue;  // the first of the two, whole
    EXPECT_EQ(Send(good.substr(0, size)), ReplyStatus::kInvalid) << size;
  }
  const auto with = [&](const auto& change) {
    BatchEntry entry;
    std::memcpy(&entry, good.data() + good.size() / 2, sizeof(entry));
    change(&entry);
    std::string bytes = good;
    std::memcpy(bytes.data() + good.size() / 2, &entry, sizeof(entry));
    return Send(bytes);
  };
  EXPECT_EQ(with([](BatchEntry* entry) { entry->value_size = 2; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->value_size = ~0u; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->value_size = 0; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->key_size = 0xffff; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->key_size = 0, entry->value_size = 2; }),
            ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->kind = BatchKind{0}; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->kind = BatchKind{9}; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->kind = BatchKind::kDelete; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->kind = BatchKind::kCheck; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->reserved = 1; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->ttl_ms = -1; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](BatchEntry* entry) { entry->condition = kMaxVersion; }), ReplyStatus::kInvalid);
  EXPECT_EQ(store().Read(Metric::kKeys), 0u);
  EXPECT_CODE(kOk, Put("key", "value"));
}

TEST_P(RemoteBatches, AWriteBehindACheckIsInvalid) {
  START();
  WriteBatch check;
  check.Check("none", Condition::Absent());
  EXPECT_EQ(Send(std::string(check.bytes())), ReplyStatus::kOk);
  EXPECT_EQ(Send(std::string(TwoPuts().bytes()) + std::string(check.bytes())), ReplyStatus::kOk);
  EXPECT_EQ(Send(std::string(check.bytes()) + std::string(TwoPuts().bytes())), ReplyStatus::kInvalid);
}

TEST_P(RemoteBatches, RequestsThatAreOutOfBoundsAreInvalid) {
  START();
  const std::string good(TwoPuts().bytes());
  EXPECT_EQ(Send(good, [](Request* request) { request->key_size = 1; }), ReplyStatus::kInvalid);
  EXPECT_EQ(Send(good, [](Request* request) { request->value_size = 0; }), ReplyStatus::kInvalid);
  EXPECT_EQ(Send(good, [](Request* request) { request->value_size = kMaxBatchBytes + 1; }),
            ReplyStatus::kInvalid);
  EXPECT_EQ(Send(good, [](Request* request) { request->payload_offset = kMaxPayloadSize + 4096; }),
            ReplyStatus::kInvalid);
  EXPECT_EQ(Send(good, [](Request* request) { request->payload_offset = ~std::uint64_t{0}; }),
            ReplyStatus::kInvalid);
  EXPECT_EQ(Send(good, [](Request* request) { request->ttl_ms = 1; }), ReplyStatus::kInvalid);
  EXPECT_EQ(Send(good, [](Request* request) { request->condition = 1; }), ReplyStatus::kInvalid);
  EXPECT_EQ(Send(good, [](Request* request) { ++request->payload_checksum; }), ReplyStatus::kCorrupt);
  std::string many;
  for (std::size_t i = 0; i <= kMaxBatchWrites; ++i) many += good.substr(0, good.size() / 2);
  EXPECT_EQ(Send(many), ReplyStatus::kInvalid);
  EXPECT_EQ(store().Read(Metric::kKeys), 0u);
}

}  // namespace
}  // namespace remora
