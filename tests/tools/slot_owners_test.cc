// Operations whose slot has another shard than the gate knows: they begin again, in their order, once the
// topology file names it.
#include "tools/kvgate/network/slot_owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cluster/slots.h"
#include "store/base/moved.h"
#include "tests/support/manual_clock.h"
#include "tools/kvgate/network/inbox.h"

namespace remora::kvgate {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr milliseconds kTimeout{1000};

/// A coroutine that begins at once, and frees itself.
struct Detached {
  struct promise_type {
    Detached get_return_object() const { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const {}
    [[noreturn]] void unhandled_exception() const { std::terminate(); }
  };
};

/// Operations at two shards, whose servers' answers the test gives. So it decides their order.
class SlotOwnersTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteFile(0);
    const absl::StatusOr<Topology> topology = Topology::Read(path_);
    ASSERT_TRUE(topology.ok()) << topology.status();
    auto inbox = Inbox::Make();
    ASSERT_TRUE(inbox.ok()) << inbox.status();
    inbox_ = *std::move(inbox);
    reader_ = std::make_unique<TopologyReader>(*topology, ClientOptions(), clock_);
    owners_ = std::make_unique<SlotOwners>(*reader_, kTimeout, *inbox_, clock_);
  }
  void TearDown() override {
    owners_->Stop();
    inbox_->Drain();
    while (!in_flight_.empty()) Answer(in_flight_.begin()->first, absl::OkStatus());
    owners_.reset();
    std::filesystem::remove(path_);
  }
  /// Replaces the file: with turn 0, shard 0 has the lower half of the slots, with 1 the upper one.
  void WriteFile(std::size_t turn, const std::string& second = "b") const {
    const std::string lower = " 0-8191 ", upper = " 8192-16383 ";
    std::ofstream(path_ + ".new") << "remora-topology 2\ncluster 9f86d081884c7d65\nshard 0"
                                  << (turn == 0 ? lower : upper) << "local:///run/a.sock\nshard 1"
                                  << (turn == 0 ? upper : lower) << "local:///run/" << second << ".sock\n";
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }

  /// An attempt at a server, which waits for its answer.
  struct Attempt {
    std::map<std::string, Attempt*>& in_flight;
    const std::string& name;
    std::coroutine_handle<> waiting{};
    absl::Status answer{};

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
      waiting = handle;
      in_flight[name] = this;
    }
    absl::Status await_resume() const { return answer; }
  };
  /// An operation, as ServerKeys has it.
  Detached Run(std::string name, std::string key) {
    SlotOwners::Operation operation = owners_->Make(key);
    std::string end = "never begun";
    for (;;) {
      const bool begins = co_await owners_->TurnOf(operation);
      if (!begins) break;
      begun_.push_back(name + " at " + std::to_string(owners_->ShardOf(operation)));
      owners_->Begin(operation);
      const absl::Status answer = co_await Attempt{in_flight_, name};
      owners_->End(operation);
      end = answer.ok() ? "done" : "moved";
      if (!owners_->TriesAgain(answer, &operation)) break;
    }
    ended_.push_back(name + " " + end);
  }
  void Answer(const std::string& name, const absl::Status& answer) {
    const auto found = in_flight_.find(name);
    ASSERT_NE(found, in_flight_.end()) << name;
    Attempt* const attempt = found->second;
    in_flight_.erase(found);
    attempt->answer = answer;
    attempt->waiting.resume();
  }
  void AnswerMoved(const std::string& name) { Answer(name, MovedError("put: another server's")); }

  /// Does what is due until the reader of the file has nothing to say any more.
  void Pump() {
    owners_->Poll();
    while (owners_->is_reading()) {
      pollfd waits{.fd = inbox_->fd(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&waits, 1, 60'000), 1);
      inbox_->Drain();
      owners_->Poll();
    }
  }
  static std::string KeyIn(bool lower, int number = 0) {
    for (int i = 1000 * number;; ++i) {
      std::string key = "key" + std::to_string(i);
      if ((SlotOfKey(key) < 8192) == lower) return key;
    }
  }

  const std::string path_ = testing::TempDir() + "/slot_owners_test." + std::to_string(::getpid());
  ManualClock clock_;
  std::unique_ptr<Inbox> inbox_;
  std::unique_ptr<TopologyReader> reader_;
  std::unique_ptr<SlotOwners> owners_;
  std::map<std::string, Attempt*> in_flight_;
  std::vector<std::string> begun_;
  std::vector<std::string> ended_;
};

TEST_F(SlotOwnersTest, AnOperationBeginsAgainWhereTheFileSays) {
  const std::string key = KeyIn(true);
  Run("a", key);
  WriteFile(1);
  AnswerMoved("a");
  Pump();
  EXPECT_THAT(begun_, ElementsAre("a at 0", "a at 1"));
  EXPECT_EQ(owners_->ShardOf(key), 1u);
  Answer("a", absl::OkStatus());
  EXPECT_THAT(ended_, ElementsAre("a done"));
}

TEST_F(SlotOwnersTest, OtherErrorsAreResults) {
  Run("a", KeyIn(true));
  Answer("a", absl::FailedPreconditionError("put: the key's version is 5"));
  EXPECT_THAT(ended_, ElementsAre("a moved"));
  EXPECT_THAT(begun_, ElementsAre("a at 0"));
}

// The answer to the second one may come first: a message of several puts waits for all of them.
TEST_F(SlotOwnersTest, OperationsOfASlotKeepTheirOrder) {
  const std::string key = KeyIn(true);
  Run("a", key);
  Run("b", key);
  WriteFile(1);
  AnswerMoved("b");
  Pump();
  Run("c", key);
  Run("other", KeyIn(false));
  Pump();
  EXPECT_EQ(owners_->ShardOf(key), 1u);
  EXPECT_THAT(begun_, ElementsAre("a at 0", "b at 0", "other at 0"));
  AnswerMoved("a");
  Pump();
  EXPECT_THAT(begun_, ElementsAre("a at 0", "b at 0", "other at 0", "a at 1", "b at 1", "c at 1"));
  for (const char* const name : {"a", "b", "c", "other"}) Answer(name, absl::OkStatus());
}

TEST_F(SlotOwnersTest, ASlotThatMovedWithAnotherOneKeepsTheOrder) {
  const std::string key = KeyIn(true), other = KeyIn(true, 1);
  Run("a", key);
  Run("b", other);
  WriteFile(1);
  AnswerMoved("a");
  Pump();
  Run("c", other);
  EXPECT_THAT(begun_, ElementsAre("a at 0", "b at 0", "a at 1"));
  AnswerMoved("b");
  Pump();
  EXPECT_THAT(begun_, ElementsAre("a at 0", "b at 0", "a at 1", "b at 1", "c at 1"));
  for (const char* const name : {"a", "b", "c"}) Answer(name, absl::OkStatus());
}

TEST_F(SlotOwnersTest, WithoutAnOwnerAnOperationPausesUntilItsTimeout) {
  const TimePoint begin = clock_.Now();
  Run("a", KeyIn(true));
  AnswerMoved("a");
  Pump();
  EXPECT_EQ(begun_.size(), 2u) << "the first time at once";
  while (ended_.empty()) {
    AnswerMoved("a");
    if (!ended_.empty()) break;
    const std::size_t before = begun_.size();
    Pump();
    EXPECT_EQ(begun_.size(), before);
    ASSERT_TRUE(owners_->next_deadline());
    EXPECT_LE(*owners_->next_deadline(), clock_.Now() + milliseconds(64));
    clock_.Advance(*owners_->next_deadline() - clock_.Now());
    Pump();
    ASSERT_EQ(begun_.size(), before + 1);
  }
  EXPECT_THAT(ended_, ElementsAre("a moved"));
  EXPECT_GT(begun_.size(), 10u);
  EXPECT_LT(clock_.Now(), begin + kTimeout);
  EXPECT_GT(clock_.Now(), begin + kTimeout - milliseconds(65));
}

TEST_F(SlotOwnersTest, AnOperationThatWaitedTooLongForOthersEnds) {
  const std::string key = KeyIn(true);
  Run("a", key);
  Run("b", key);
  AnswerMoved("b");
  Pump();
  clock_.Advance(kTimeout);
  Answer("a", absl::OkStatus());
  Pump();
  EXPECT_THAT(ended_, ElementsAre("a done", "b moved"));
}

TEST_F(SlotOwnersTest, AFileWithOtherShardsIsNotTaken) {
  const std::string key = KeyIn(true);
  Run("a", key);
  WriteFile(1, "c");
  AnswerMoved("a");
  Pump();
  EXPECT_THAT(begun_, ElementsAre("a at 0"));
  EXPECT_THAT(ended_, ElementsAre("a moved"));
  EXPECT_EQ(owners_->ShardOf(key), 0u);
}

TEST_F(SlotOwnersTest, AFileThatIsAwayIsReadAgain) {
  Run("a", KeyIn(true));
  std::filesystem::remove(path_);
  AnswerMoved("a");
  Pump();
  WriteFile(1);
  AnswerMoved("a");
  clock_.Advance(milliseconds(64));
  Pump();
  EXPECT_THAT(begun_, ElementsAre("a at 0", "a at 0", "a at 1"));
  Answer("a", absl::OkStatus());
}

TEST_F(SlotOwnersTest, StopEndsWhatWaits) {
  const std::string key = KeyIn(true);
  Run("a", key);
  AnswerMoved("a");
  Run("b", key);
  owners_->Stop();
  EXPECT_THAT(ended_, ElementsAre("a moved", "b never begun"));
  Run("c", key);
  AnswerMoved("c");
  EXPECT_THAT(ended_, ElementsAre("a moved", "b never begun", "c moved"));
}

TEST_F(SlotOwnersTest, OneServerIsNotFollowed) {
  const absl::StatusOr<Topology> one = Topology::OfServer("local:///run/a.sock");
  ASSERT_TRUE(one.ok()) << one.status();
  reader_ = std::make_unique<TopologyReader>(*one, ClientOptions(), clock_);
  owners_ = std::make_unique<SlotOwners>(*reader_, kTimeout, *inbox_, clock_);
  Run("a", KeyIn(false));
  AnswerMoved("a");
  EXPECT_THAT(begun_, ElementsAre("a at 0"));
  EXPECT_THAT(ended_, ElementsAre("a moved"));
  EXPECT_THAT(in_flight_, IsEmpty());
}

}  // namespace
}  // namespace remora::kvgate
