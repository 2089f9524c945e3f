// The destination of a move whose shard has replicas: M8 to M10 of server/cluster/slot_moves.h. The test
// stands in for the source, the keeper and the members.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/cluster/kept_division.h"
#include "server/cluster/slot_moves.h"
#include "store/base/moved.h"
#include "store/durable/group_sink.h"
#include "store/format/cluster/slot.h"
#include "store/server_store.h"
#include "store/slot_transfer.h"
#include "tests/support/manual_clock.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

constexpr std::uint64_t kClusterOfMembers = 0x5f0d;
constexpr char kFirstMove[] = "00000000000000b1", kSecondMove[] = "00000000000000b2";

class NoGroups final : public GroupSink {
 public:
  void Take(std::uint64_t, std::string_view) override {}
};

ClusterSlots Range(std::uint32_t first, std::uint32_t last) {
  ClusterSlots slots;
  slots.Add(first, last);
  return slots;
}

class MemberMovesTest : public testing::Test {
 protected:
  MemberMovesTest() {
    StoreOptions options;
    options.memory_size = std::size_t{16} << 20;
    options.durability = Durability::kLogged;
    options.data_dir = temp_.path() + "/data";
    options.commit_log_bytes = std::uint64_t{64} << 20;
    options.clock = &clock_;
    options.syncing = Syncing::kInSteps;
    options.follows = true;
    options.slots = std::make_shared<const ClusterSlots>(Range(0, kSlots - 1));
    auto store = ServerStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    EXPECT_TRUE(store_->NewSlotTransfer()->Limit(own_).ok());
    EXPECT_TRUE(store_->Promote(&groups_, 0).ok());
    Show();
    moves_ =
        std::make_unique<SlotMoves>(*store_, log_, MovingMember{*division_, {}, [this] { return state_; }});
  }
  void Show() { division_->Show(own_, {{"0", "local:///0"}, {"1", "local:///1"}, {"2", "local:///2"}}); }
  std::string Do(const std::string& command, bool may_replicate = true) {
    const absl::StatusOr<std::string> answer = moves_->Do(command, may_replicate);
    return answer.ok() ? *answer : absl::StatusCodeToString(answer.status().code());
  }
  SlotCopyHeader Header(const char* move, const char* source, const ClusterSlots& slots) {
    SlotCopyHeader header{.move = MoveIn(move),
                          .source = IdentityOf(kClusterOfMembers, source),
                          .destination = division_->self()};
    SetSlots(slots, &header);
    return header;
  }
  std::string Take(const char* move, const char* source, const ClusterSlots& slots, std::uint64_t epoch,
                   std::uint64_t order, bool may_replicate = true) {
    const SlotCopyHeader header = Header(move, source, slots);
    return Do(absl::StrCat("take ", move, " ", epoch, " ", order, "\n",
                           absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header))),
              may_replicate);
  }
  /// Steps until the state of the move is this one.
  void Await(const char* move, const std::string& state) {
    for (int i = 0; i < 10'000; ++i) {
      if (absl::StartsWith(Do(absl::StrCat("state ", move)), state)) return;
      moves_->Step();
      clock_.Advance(std::chrono::milliseconds(1));
    }
    FAIL() << "the state is " << Do(absl::StrCat("state ", move)) << ", not " << state;
  }
  void StepOn() {
    for (int i = 0; i < 100; ++i) {
      moves_->Step();
      clock_.Advance(std::chrono::milliseconds(1));
    }
  }
  /// Returns the bytes of a copy with one record.
  std::string Copy(const char* move, const char* source, const ClusterSlots& slots) {
    const std::string path = absl::StrCat(temp_.path(), "/copy", ++copies_);
    auto writer = SlotCopyWriter::Create(path, Header(move, source, slots));
    EXPECT_TRUE(writer.ok()) << writer.status();
    const SlotRecord record{.key = key_, .value = "value", .version = 500};
    EXPECT_TRUE((*writer)->Add(key_, &record).ok());
    EXPECT_TRUE((*writer)->Seal(1000, /*synced=*/false).ok());
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Send(const char* move, const char* source, const ClusterSlots& slots, std::uint64_t epoch,
            std::uint64_t order) {
    ASSERT_EQ(Take(move, source, slots, epoch, order), "ok");
    Await(move, "prepared");
    const std::string bytes = Copy(move, source, slots);
    ASSERT_EQ(Do(absl::StrCat("part ", move, " 0\n", bytes.substr(0, 10))), "ok");
    ASSERT_EQ(Do(absl::StrCat("part ", move, " 10\n", bytes.substr(10))), "ok");
    ASSERT_EQ(Do(absl::StrCat("confirm ", move)), "ok");
  }
  /// Says that all members have all groups.
  void Publish() {
    state_.published = store_->last_group();
    ASSERT_TRUE(store_->Acknowledge(store_->last_group()).ok());
  }

  const ClusterSlots coming_ = Range(0, 999);
  const std::string key_ = [] {
    for (int i = 0;; ++i) {
      if (std::string key = absl::StrCat("key", i); SlotOf(key) < 1000) return key;
    }
  }();
  ClusterSlots own_ = Range(8192, kSlots - 1);
  const TempDir temp_;
  ManualClock clock_;
  NoGroups groups_;
  const OperatorLog log_{nullptr};
  int copies_ = 0;
  MovingMember::State state_{.epoch = 7};
  std::unique_ptr<KeptDivision> division_ =
      std::make_unique<KeptDivision>(IdentityOf(kClusterOfMembers, "1"), temp_.path());
  std::unique_ptr<ServerStore> store_;
  std::unique_ptr<SlotMoves> moves_;
};

TEST_F(MemberMovesTest, TakesSlotsOnceTheDivisionGivesThem) {
  Send(kFirstMove, "0", coming_, 3, 1);
  Publish();
  Await(kFirstMove, "confirmed 7");
  EXPECT_EQ(division_->expected(), coming_) << "K23";
  EXPECT_TRUE(division_->hurries());
  EXPECT_TRUE(IsMoved(store_->Locate(key_).status()));
  EXPECT_EQ(store_->Read(Metric::kKeys), 0u) << "a reader of its memory would find the copy";
  own_.Add(0, 999);
  Show();
  Await(kFirstMove, "own");
  std::string value;
  ASSERT_TRUE(store_->Get(key_, &value).ok());
  EXPECT_EQ(value, "value");
  EXPECT_TRUE(division_->expected().empty());
  EXPECT_TRUE(FilesWithPrefix(temp_.path() + "/slots-").empty());
}

TEST_F(MemberMovesTest, ConfirmsOnceAllMembersHaveTheCopy) {  // M8
  Send(kFirstMove, "0", coming_, 3, 1);
  state_.published = store_->last_group() - 1;
  StepOn();
  EXPECT_EQ(Do(absl::StrCat("state ", kFirstMove)), "staged");
  EXPECT_TRUE(division_->expected().empty());
  Publish();
  Await(kFirstMove, "confirmed 7");
}

TEST_F(MemberMovesTest, AnEarlierMoveDoesNotReplaceALaterOne) {  // M10
  Send(kSecondMove, "0", coming_, 3, 2);
  Publish();
  Await(kSecondMove, "confirmed 7");
  EXPECT_EQ(Take(kFirstMove, "0", coming_, 3, 1), "FAILED_PRECONDITION");
  EXPECT_EQ(Take(kFirstMove, "0", coming_, 2, 9), "FAILED_PRECONDITION") << "of a primary that was replaced";
  EXPECT_EQ(Do(absl::StrCat("state ", kSecondMove)), "confirmed 7");
  EXPECT_EQ(Take(kFirstMove, "0", coming_, 4, 1), "ok");
  EXPECT_EQ(Do(absl::StrCat("state ", kSecondMove)), "none");
}

TEST_F(MemberMovesTest, NoOtherShardHasSlotsDeletedThatMayCome) {  // M10
  Send(kFirstMove, "0", coming_, 3, 1);
  Publish();
  Await(kFirstMove, "confirmed 7");
  EXPECT_EQ(Take(kSecondMove, "2", Range(999, 1100), 3, 1), "UNAVAILABLE") << "another move is in progress";
  clock_.Advance(std::chrono::seconds(20));
  EXPECT_EQ(Take(kSecondMove, "2", Range(999, 1100), 3, 1), "FAILED_PRECONDITION");
  EXPECT_EQ(Take(kSecondMove, "2", Range(1000, 1100), 3, 1), "ok");
  EXPECT_TRUE(division_->expected().empty()) << "if the slots come all the same, the process ends";
  EXPECT_EQ(Take("00000000000000b3", "2", Range(999, 1100), 3, 2), "FAILED_PRECONDITION") << "still";
}

TEST_F(MemberMovesTest, ASourceMayCancel) {
  Send(kFirstMove, "0", coming_, 3, 1);
  Publish();
  Await(kFirstMove, "confirmed 7");
  EXPECT_EQ(Do(absl::StrCat("cancel ", kFirstMove)), "ok");
  EXPECT_TRUE(division_->expected().empty());
  EXPECT_EQ(Take(kSecondMove, "2", coming_, 3, 1), "ok") << "the source has settled it";
}

TEST_F(MemberMovesTest, ANewMoveBeginsWithoutWhatAnEarlierOneLeft) {
  Send(kFirstMove, "0", coming_, 3, 1);
  const std::uint64_t copied = store_->last_group();
  ASSERT_TRUE(store_->Acknowledge(copied).ok());  // so only the published groups of the shard hold it up
  state_.published = copied - 1;
  ASSERT_EQ(Take(kSecondMove, "0", coming_, 3, 2), "ok");
  StepOn();
  EXPECT_EQ(Do(absl::StrCat("state ", kSecondMove)), "preparing")
      << "a scan of the disk does not show it yet";
  Publish();
  Await(kSecondMove, "prepared");
  EXPECT_GT(store_->last_group(), copied) << "the members delete it, too";
}

TEST_F(MemberMovesTest, RejectsWhatIsNoMove) {
  EXPECT_EQ(Take(kFirstMove, "0", coming_, 3, 1, /*may_replicate=*/false), "UNAUTHENTICATED");
  EXPECT_EQ(Take(kFirstMove, "9", coming_, 3, 1), "NOT_FOUND");
  EXPECT_EQ(Take(kFirstMove, "0", Range(8000, 8200), 3, 1), "FAILED_PRECONDITION") << "some are its own";
  EXPECT_EQ(Do(absl::StrCat("take ", kFirstMove, " 3 1\nshort")), "INVALID_ARGUMENT");
  EXPECT_EQ(Do(absl::StrCat("take ", kFirstMove, " 0-9 0")), "FAILED_PRECONDITION")
      << "the command of one host";
  EXPECT_EQ(Do(absl::StrCat("part ", kFirstMove, " 0\nbytes")), "FAILED_PRECONDITION");
  ASSERT_EQ(Take(kFirstMove, "0", coming_, 3, 1), "ok");
  Await(kFirstMove, "prepared");
  EXPECT_EQ(Do(absl::StrCat("part ", kFirstMove, " 1\nbytes")), "FAILED_PRECONDITION") << "a gap";
  EXPECT_EQ(Do(absl::StrCat("part ", kFirstMove, " 0\nbytes")), "ok");
  EXPECT_EQ(Do(absl::StrCat("confirm ", kFirstMove)), "DATA_LOSS");
  state_.epoch = 0;
  EXPECT_EQ(Do(absl::StrCat("state ", kFirstMove)), "FAILED_PRECONDITION") << "no primary";
}

}  // namespace
}  // namespace remora
