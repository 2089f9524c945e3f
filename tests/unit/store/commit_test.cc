// Groups of writes: the outcome of each write, and the state that a failed write leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "file_size_limit.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Write PutOf(std::string_view key, std::string_view value) {
  Write write;
  write.key = key;
  write.value = value;
  return write;
}

Write DeleteOf(std::string_view key) {
  Write write;
  write.kind = Write::Kind::kDelete;
  write.key = key;
  return write;
}

class CommitTest : public testing::TestWithParam<Durability> {
 protected:
  TempDir temp_;
  std::unique_ptr<ServerStore> store_ = Open();

  bool IsLogged() const { return GetParam() == Durability::kLogged; }
  std::unique_ptr<ServerStore> Open() {
    StoreOptions options;
    if (IsLogged()) options = LoggedIn(temp_ / "store", kMinMemorySize);
    options.memory_size = kMinMemorySize;
    options.eviction = Eviction::kNone;
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  // Reopens a logged store. A store in memory would lose everything, so this leaves it open.
  void Restart() {
    if (!IsLogged()) return;
    store_.reset();
    store_ = Open();
  }
  std::vector<absl::StatusCode> Commit(std::vector<Write> writes) {
    store_->Commit(writes);
    std::vector<absl::StatusCode> codes;
    for (const Write& write : writes) codes.push_back(write.status.code());
    return codes;
  }
  std::string Get(std::string_view key) const {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }
  static constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
  static constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
};
INSTANTIATE_TEST_SUITE_P(With, CommitTest, testing::Values(Durability::kMemory, Durability::kLogged));

TEST_P(CommitTest, NothingIsNothing) {
  EXPECT_THAT(Commit({}), ElementsAre());
  EXPECT_EQ(store_->Read(Metric::kCommitGroups), 0u);
}

TEST_P(CommitTest, TheLastWriteOfAKeyWins) {
  EXPECT_THAT(Commit({PutOf("a", "1"), PutOf("b", "2"), PutOf("a", "3")}), ElementsAre(kOk, kOk, kOk));
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(Get("a"), "3");
    EXPECT_EQ(Get("b"), "2");
    EXPECT_EQ(store_->Read(Metric::kKeys), 2u);
    Restart();
  }
}

TEST_P(CommitTest, ExistenceIsDecidedInOrder) {
  EXPECT_THAT(Commit({DeleteOf("a"), PutOf("a", "1"), DeleteOf("a"), DeleteOf("a"), PutOf("a", "2")}),
              ElementsAre(kNotFound, kOk, kOk, kNotFound, kOk));
  EXPECT_THAT(Commit({DeleteOf("a"), PutOf("a", "3"), PutOf("b", "4"), DeleteOf("b")}),
              ElementsAre(kOk, kOk, kOk, kOk));
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(Get("a"), "3");
    EXPECT_EQ(Get("b"), "NOT_FOUND");
    EXPECT_EQ(store_->Read(Metric::kKeys), 1u);
    Restart();
  }
}

TEST_P(CommitTest, EachWriteHasItsOwnOutcome) {
  const std::string too_long(kMaxKeySize + 1, 'k');
  EXPECT_THAT(
      Commit({PutOf("a", "1"), PutOf("", "2"), DeleteOf("missing"), PutOf(too_long, ""), PutOf("b", "3")}),
      ElementsAre(kOk, absl::StatusCode::kInvalidArgument, kNotFound, absl::StatusCode::kInvalidArgument,
                  kOk));
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "3");
  // In memory, the first put takes the fast path, and the other writes are a second group.
  EXPECT_EQ(store_->Read(Metric::kCommitGroups), IsLogged() ? 1u : 2u);
}

TEST_P(CommitTest, VersionsAndPlacesAreReported) {
  std::vector<Write> writes = {PutOf("a", "1"), PutOf("b", "2"), DeleteOf("a")};
  store_->Commit(writes);
  EXPECT_LT(writes[0].version, writes[1].version);
  EXPECT_LT(writes[1].version, writes[2].version);
  EXPECT_EQ(writes[2].slot, 0u);
  const absl::StatusOr<Location> location = store_->Locate("b");
  ASSERT_TRUE(location.ok());
  EXPECT_EQ(location->slot, writes[1].slot);
  EXPECT_EQ(location->version, writes[1].version);
}

// --- verify ---------------------------------------------------------------------------------------------

struct Expected {
  std::uint64_t key_hash;
  std::uint64_t value_hash;
  int calls = 0;
};

bool Verify(const void* context, std::uint64_t key_hash, std::uint64_t value_hash) {
  auto* expected = static_cast<Expected*>(const_cast<void*>(context));
  ++expected->calls;
  return key_hash == expected->key_hash && value_hash == expected->value_hash;
}

TEST_P(CommitTest, VerifySeesTheHashesOfKeyAndValue) {
  Expected put{HashKey("key"), HashValue("value", 5)};
  Expected remove{HashKey("key"), HashValue(nullptr, 0)};
  std::vector<Write> writes = {PutOf("key", "value"), DeleteOf("key")};
  writes[0].verify = writes[1].verify = Verify;
  writes[0].verify_context = &put;
  writes[1].verify_context = &remove;
  store_->Commit(writes);
  EXPECT_TRUE(writes[0].status.ok());
  EXPECT_TRUE(writes[1].status.ok());
  EXPECT_EQ(put.calls, 1);
  EXPECT_EQ(remove.calls, 1);
}

TEST_P(CommitTest, AWriteThatFailsVerificationLeavesNothing) {
  ASSERT_THAT(Commit({PutOf("key", "old")}), ElementsAre(kOk));
  const std::uint64_t used = store_->Read(Metric::kLogBytesUsed);
  const std::uint64_t version = store_->Read(Metric::kLastVersion);
  Expected wrong{HashKey("key"), 1};
  const std::string large(1000, 'v');
  for (Write write : {PutOf("key", large), PutOf("new", "value"), DeleteOf("key")}) {
    write.verify = Verify;
    write.verify_context = &wrong;
    store_->Commit(std::span(&write, 1));
    EXPECT_EQ(write.status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(write.version, 0u);
  }
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(Get("key"), "old");
    EXPECT_EQ(Get("new"), "NOT_FOUND");
    EXPECT_EQ(store_->Read(Metric::kKeys), 1u);
    EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), used) << "its place was not given back";
    Restart();
  }
  EXPECT_GE(store_->Read(Metric::kLastVersion), version);
}

// A client changes its bytes in shared memory right after
// they are verified. The store keeps the verified bytes.
TEST_P(CommitTest, TheVerifiedBytesAreStored) {
  std::string shared = "honest value";
  Write write = PutOf("key", shared);
  write.verify = [](const void* context, std::uint64_t, std::uint64_t value_hash) {
    auto* bytes = static_cast<std::string*>(const_cast<void*>(context));
    const bool honest = value_hash == HashValue(bytes->data(), bytes->size());
    std::memset(bytes->data(), 'X', bytes->size());
    return honest;
  };
  write.verify_context = &shared;
  store_->Commit(std::span(&write, 1));
  ASSERT_TRUE(write.status.ok()) << write.status;
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(Get("key"), "honest value");
    Restart();
  }
}

TEST_P(CommitTest, TheKeyThatWasVerifiedIsTheOneDeleted) {
  ASSERT_THAT(Commit({PutOf("aaa", "1"), PutOf("XXX", "2")}), ElementsAre(kOk, kOk));
  std::string shared = "aaa";
  Write write = DeleteOf(shared);
  write.verify = [](const void* context, std::uint64_t, std::uint64_t) {
    std::memset(static_cast<std::string*>(const_cast<void*>(context))->data(), 'X', 3);
    return true;
  };
  write.verify_context = &shared;
  store_->Commit(std::span(&write, 1));
  ASSERT_TRUE(write.status.ok());
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(Get("aaa"), "NOT_FOUND");
    EXPECT_EQ(Get("XXX"), "2");
    Restart();
  }
}

// One write of a group fails verification. The writes around it succeed, with consecutive versions and
// adjacent places, as if it had not been there.
TEST_P(CommitTest, OtherWritesOfAGroupIgnoreAFailedVerification) {
  ASSERT_THAT(Commit({PutOf("b", "old")}), ElementsAre(kOk));
  Expected wrong{HashKey("b"), 1};
  std::vector<Write> writes = {PutOf("a", "1"), PutOf("b", "2"), PutOf("c", "3")};
  writes[1].verify = Verify;
  writes[1].verify_context = &wrong;
  store_->Commit(writes);
  EXPECT_EQ(wrong.calls, 1);
  EXPECT_EQ(writes[1].status.code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(writes[0].status.ok() && writes[2].status.ok());
  EXPECT_EQ(writes[2].version, writes[0].version + 1);
  const Slot before = DecodeSlot(writes[0].slot);
  EXPECT_EQ(DecodeSlot(writes[2].slot).offset_units, before.offset_units + ExtentUnits(before.extent_code));
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(Get("a"), "1");
    EXPECT_EQ(Get("b"), "old");
    EXPECT_EQ(Get("c"), "3");
    Restart();
  }
}

// Plain puts and other writes share a group. Each is decided given all writes before it.
TEST_P(CommitTest, PlainPutsAndOthersAreDoneInTheirOrder) {
  std::vector<Write> writes = {PutOf("a", "1"), PutOf("a", "2"), PutOf("a", "3"), PutOf("a", "4"),
                               DeleteOf("a"),   PutOf("a", "5"), PutOf("b", "6"), PutOf("b", "7")};
  writes[2].condition = Condition::Absent();
  writes[3].ttl = std::chrono::hours(1);
  writes[7].condition = Condition::Present();
  store_->Commit(writes);
  std::uint64_t version = 0;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const absl::StatusCode wanted = i == 2 ? absl::StatusCode::kAlreadyExists : kOk;
    ASSERT_EQ(writes[i].status.code(), wanted) << i;
    if (wanted != kOk) continue;
    EXPECT_GT(writes[i].version, version) << i;
    version = writes[i].version;
  }
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(Get("a"), "5");
    EXPECT_EQ(Get("b"), "7");
    EXPECT_EQ(store_->Ttl("a").value(), std::nullopt);
    EXPECT_EQ(store_->Read(Metric::kKeys), 2u);
    Restart();
  }
}

// The index grows between groups, in proportion to the new keys. So a long span of puts is split into groups.
TEST_P(CommitTest, TheIndexGrowsBesideOneLongRunOfPuts) {
  std::vector<std::string> keys(20'000);
  std::vector<Write> writes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = "key" + std::to_string(i);
    writes.push_back(PutOf(keys[i], "value"));
  }
  store_->Commit(writes);
  for (const Write& write : writes) ASSERT_TRUE(write.status.ok()) << write.status;
  EXPECT_GE(store_->Read(Metric::kIndexBuckets) * 25, keys.size());
  EXPECT_LT(store_->Read(Metric::kOverflowBuckets), store_->Read(Metric::kIndexBuckets));
  for (const std::string& key : keys) ASSERT_EQ(Get(key), "value") << key;
}

// --- No space -------------------------------------------------------------------------------------------

TEST_P(CommitTest, AWriteThatDoesNotFitDoesNotHinderTheOthers) {
  const std::string large(kMaxSmallValueSize, 'v');
  std::vector<std::string> keys(80);
  std::vector<Write> writes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = "key" + std::to_string(i);
    writes.push_back(PutOf(keys[i], large));
  }
  writes.push_back(PutOf("small", "value"));
  const std::vector<absl::StatusCode> codes = Commit(writes);
  EXPECT_EQ(codes.front(), kOk);
  EXPECT_EQ(codes[79], absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(codes.back(), kOk);
  for (int restart = 0; restart < 2; ++restart) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(Get(keys[i]), codes[i] == kOk ? large : "NOT_FOUND") << i;
    }
    EXPECT_EQ(Get("small"), "value");
    if (restart == 0) Restart();
  }
}

// If memory waits for its grace period, all remaining writes
// of a group are Aborted, and succeed when it is free.
TEST_P(CommitTest, WritesThatWaitForMemoryAreAbortedInOrder) {
  const std::string large(kMaxSmallValueSize, 'v');
  const std::vector<Write> group(30, PutOf("key", large));
  std::vector<Write> writes = group;
  store_->Commit(writes);
  std::size_t done = 0;
  while (done < writes.size() && writes[done].status.ok()) ++done;
  ASSERT_GT(done, 0u);
  std::size_t rounds = 0;
  for (; done < 200 && rounds < 10'000; ++rounds) {
    writes = group;
    writes.push_back(DeleteOf("missing"));
    store_->Commit(writes);
    const auto put_off = std::find_if(writes.begin(), writes.end(), [](const Write& write) {
      return write.status.code() == absl::StatusCode::kAborted;
    });
    done += static_cast<std::size_t>(put_off - writes.begin());
    for (auto write = writes.begin(); write != put_off; ++write) {
      ASSERT_TRUE(write->status.ok() || write->status.code() == kNotFound) << write->status;
    }
    for (auto write = put_off; write != writes.end(); ++write) {
      ASSERT_EQ(write->status.code(), absl::StatusCode::kAborted) << "behind one that was put off";
    }
    if (put_off == writes.end()) continue;
    ASSERT_TRUE(store_->next_maintenance().has_value()) << "nothing to wait for";
    std::this_thread::sleep_until(*store_->next_maintenance());
    store_->RunMaintenance();
  }
  EXPECT_GE(done, 200u);
  EXPECT_GT(store_->Read(Metric::kWritesPutOff), 0u);
  EXPECT_EQ(Get("key"), large);
}

// --- The durable tier fails -----------------------------------------------------------------------------

class CommitToTierTest : public CommitTest {};
INSTANTIATE_TEST_SUITE_P(Logged, CommitToTierTest, testing::Values(Durability::kLogged));

TEST_P(CommitToTierTest, NothingOfAGroupThatIsNotDurableIsVisible) {
  ASSERT_THAT(Commit({PutOf("a", "1"), PutOf("b", "2")}), ElementsAre(kOk, kOk));
  const std::uint64_t used = store_->Read(Metric::kLogBytesUsed);
  const std::uint64_t version = store_->Read(Metric::kLastVersion);
  constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;
  const std::string large(30'000, 'v');  // the log has space for it
  {
    FileSizeLimit limit(4096);
    EXPECT_THAT(Commit({PutOf("a", large), DeleteOf("b"), PutOf("c", "3"), DeleteOf("missing")}),
                ElementsAre(kUnavailable, kUnavailable, kUnavailable, kNotFound));
  }
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(Get("c"), "NOT_FOUND");
  EXPECT_EQ(store_->Read(Metric::kKeys), 2u);
  EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), used);

  // The log file may now end with half a record, so the store takes no more writes until a restart.
  EXPECT_THAT(Commit({PutOf("d", "4")}), ElementsAre(kUnavailable));
  EXPECT_EQ(Get("a"), "1");
  Restart();
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "2");
  std::vector<Write> writes = {PutOf("d", "4")};
  store_->Commit(writes);
  EXPECT_TRUE(writes[0].status.ok()) << writes[0].status;
  EXPECT_GT(writes[0].version, version + 3) << "versions of the failed group may be on disk";
}

// F2 of store/durable/files.h: RocksDB has not seen it.
TEST_P(CommitToTierTest, AGroupWithoutSpaceInTheLogIsRejectedAlone) {
  {
    FileSizeLimit limit(4096);
    EXPECT_THAT(Commit({PutOf("a", std::string(100'000, 'v'))}), ElementsAre(absl::StatusCode::kUnavailable));
    EXPECT_EQ(Get("a"), "NOT_FOUND");
    EXPECT_THAT(Commit({PutOf("b", "2")}), ElementsAre(kOk));
  }
  EXPECT_THAT(Commit({PutOf("c", std::string(100'000, 'v'))}), ElementsAre(kOk));
  Restart();
  EXPECT_EQ(Get("a"), "NOT_FOUND");
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(Get("c"), std::string(100'000, 'v'));
}

TEST_P(CommitToTierTest, TheErrorOfTheTierIsReturned) {
  FileSizeLimit limit(4096);
  const absl::Status status = store_->Put("a", std::string(100'000, 'v'));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("not visible"));
}

}  // namespace
}  // namespace remora
