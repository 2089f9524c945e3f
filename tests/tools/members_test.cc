// The report of `kvctl cluster members`, the choice of `kvctl cluster rebuild`, and the flags about etcd.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sysexits.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/cluster/shard_configuration.h"
#include "server/main/etcd_flags.h"
#include "tools/json/json.h"
#include "tools/kvctl/members/latest.h"
#include "tools/kvctl/members/report.h"

namespace remora::kvctl {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kShard[] = "5f0c0000000000aa/one";

ShardConfiguration Three() {
  return {.epoch = 3,
          .primary = "b",
          .in_sync = {{.id = "a", .life = 1}, {.id = "b", .life = 2}, {.id = "c", .life = 3}},
          .min_in_sync = 2,
          .replicas = {{.id = "a", .address = "tcp://h:1"},
                       {.id = "b", .address = "tcp://h:2"},
                       {.id = "c", .address = "tcp://h:3"}},
          .lineage = {{.epoch = 3, .first = 1}}};
}

MemberAnswer Serves(std::uint64_t last) {
  return {.state = MemberState::kServes, .epoch = 3, .last_version = last};
}
MemberAnswer Follows(std::uint64_t last) {
  return {.state = MemberState::kFollows, .epoch = 3, .last_version = last};
}
MemberAnswer Away() {
  return {.failure = {.exit_code = EX_UNAVAILABLE, .error = "connect: nobody \x1b there"}};
}

MembersReport Report(std::vector<MemberAnswer> answers, ShardConfiguration of = Three()) {
  return MembersReport(kShard, std::move(of), std::move(answers));
}

TEST(MembersTest, AHealthyShardHasNoTrouble) {
  const MembersReport report = Report({Follows(9), Serves(9), Follows(10)});
  EXPECT_EQ(report.Verdict().exit_code, 0);
  EXPECT_EQ(report.Verdict().error, "");
  EXPECT_EQ(report.ToText(),
            "shard 5f0c0000000000aa/one: epoch 3, min_in_sync 2, 3 of 3 members in sync\n"
            "member  part      state            epoch    lacks  address\n"
            "a       in sync   follows              3        0  tcp://h:1\n"
            "b       primary   serves               3        0  tcp://h:2\n"
            "c       in sync   follows              3        0  tcp://h:3\n");
}

TEST(MembersTest, MembersThatAreBehindOrAwayAreNamed) {
  ShardConfiguration of = Three();
  of.in_sync.erase(of.in_sync.begin());  // a
  const MembersReport report = Report({Follows(4), Serves(9), Away()}, of);
  EXPECT_EQ(report.Verdict().exit_code, kExitProblem);
  EXPECT_THAT(report.Verdict().error, HasSubstr(": a is not in sync, c does not answer; start those"));
  EXPECT_THAT(report.Verdict().error, Not(HasSubstr("writes wait")));
  EXPECT_THAT(report.ToText(), HasSubstr("a       out       follows              3        5  tcp://h:1\n"));
  EXPECT_THAT(report.ToText(), HasSubstr("c       in sync   does not answer      -        -  tcp://h:3: "
                                         "connect: nobody \\x1b there\n"));
}

TEST(MembersTest, APrimaryThatRejectsWritesIsNamed) {
  MemberAnswer full = Serves(9);
  full.rejects_writes = true;
  const Outcome verdict = Report({Follows(9), full, Away()}).Verdict();
  EXPECT_EQ(verdict.exit_code, kExitProblem);
  EXPECT_THAT(verdict.error, HasSubstr(": the primary b rejects writes, c does not answer; start those"));
  for (const char* const metric : {"disk_refuses", "memory_refuses"}) {
    EXPECT_TRUE(AnswerIn({{"replication_role", 3}, {metric, 1}}).rejects_writes);
    EXPECT_FALSE(AnswerIn({{"replication_role", 3}, {metric, 0}}).rejects_writes);
  }
}

TEST(MembersTest, AShardBelowItsMinimumSaysThatWritesWait) {
  ShardConfiguration of = Three();
  of.in_sync = {{.id = "b", .life = 2}};
  of.complete = {{.id = "a", .life = 1}};
  const MembersReport report = Report({Away(), Serves(9), Away()}, of);
  EXPECT_EQ(report.Verdict().exit_code, kExitProblem);
  EXPECT_THAT(report.Verdict().error, HasSubstr("writes wait for min_in_sync: a is not in sync and does not "
                                                "answer, c is not in sync and does not answer"));
  EXPECT_THAT(report.ToText(), HasSubstr("a       complete  does not answer"));
}

TEST(MembersTest, WithoutAPrimaryThatServesTheShardIsUnavailable) {
  MemberAnswer opens = Serves(9), is_old = Serves(9), denied = Away();
  opens.state = MemberState::kOpens;
  is_old.epoch = 2;
  denied.failure.exit_code = EX_NOPERM;
  EXPECT_EQ(Report({Follows(9), opens, Follows(9)}).Verdict().exit_code, EX_UNAVAILABLE);
  EXPECT_THAT(Report({Follows(9), opens, Follows(9)}).Verdict().error,
              HasSubstr("its primary b opens in epoch 3"));
  EXPECT_EQ(Report({Follows(9), is_old, Follows(9)}).Verdict().exit_code, EX_UNAVAILABLE);
  EXPECT_EQ(Report({Follows(9), Away(), Follows(9)}).Verdict().exit_code, EX_UNAVAILABLE);
  EXPECT_THAT(Report({Follows(9), Away(), Follows(9)}).Verdict().error,
              HasSubstr("its primary b (tcp://h:2): "));
  EXPECT_EQ(Report({Follows(9), denied, Follows(9)}).Verdict().exit_code, EX_NOPERM);
  // Nobody knows what a member lacks.
  EXPECT_EQ(Report({Follows(9), Away(), Follows(9)}).members()[0].lacks, std::nullopt);
}

TEST(MembersTest, AShardThatHasNotBegunIsUnavailable) {
  ShardConfiguration of = Three();
  of.epoch = 0;
  of.primary.clear();
  of.in_sync.clear();
  of.lineage.clear();
  const MembersReport report = Report({Follows(0), Away(), Away()}, of);
  EXPECT_EQ(report.Verdict().exit_code, EX_UNAVAILABLE);
  EXPECT_THAT(report.Verdict().error, HasSubstr("it has not begun"));
  EXPECT_THAT(report.ToText(), HasSubstr("a       out       follows"));
}

TEST(LatestTest, TheLatestEpochCountsBeforeTheLatestWrite) {
  const auto member = [](std::string id, std::uint64_t epoch, std::uint64_t last) {
    return MemberLine{.id = std::move(id),
                      .address = "",
                      .answer = {.state = MemberState::kFollows, .epoch = epoch, .last_version = last}};
  };
  const std::vector<MemberLine> agreed = {member("a", 2, 9), member("b", 3, 12), member("c", 3, 10)};
  EXPECT_EQ((*ChooseLatest(agreed, ""))->id, "b");
  EXPECT_EQ((*ChooseLatest(agreed, "c"))->id, "c");
  EXPECT_THAT(std::string(ChooseLatest(agreed, "d").status().message()),
              HasSubstr("none of --initial_member"));
  const std::vector<MemberLine> equal = {member("a", 3, 12), member("b", 3, 12)};
  EXPECT_EQ((*ChooseLatest(equal, ""))->id, "a");
  const std::vector<MemberLine> disagree = {member("a", 2, 90), member("b", 3, 12)};
  const auto chosen = ChooseLatest(disagree, "");
  EXPECT_TRUE(absl::IsFailedPrecondition(chosen.status()));
  EXPECT_THAT(
      std::string(chosen.status().message()),
      HasSubstr("b has the latest epoch, 3, with writes up to version 12, and a has writes up to 90 of "
                "epoch 2"));
  EXPECT_EQ((*ChooseLatest(disagree, "b"))->id, "b");
  const std::vector<MemberLine> empty = {member("a", 0, 0), member("b", 0, 0)};
  EXPECT_THAT(std::string(ChooseLatest(empty, "a").status().message()), HasSubstr("no member has data"));
}

TEST(MembersTest, JsonHasTheSame) {
  ShardConfiguration of = Three();
  of.in_sync.pop_back();
  const json::Value object(
      json_loads(Report({Follows(4), Serves(9), Away()}, of).ToJson().c_str(), 0, nullptr));
  ASSERT_NE(object, nullptr);
  const char* shard = nullptr;
  json_int_t epoch = 0, min_in_sync = 0;
  json_t* members = nullptr;
  ASSERT_EQ(json_unpack(object.get(), "{s:s, s:I, s:I, s:o !}", "shard", &shard, "epoch", &epoch,
                        "min_in_sync", &min_in_sync, "members", &members),
            0);
  EXPECT_STREQ(shard, kShard);
  EXPECT_EQ(epoch, 3);
  EXPECT_EQ(min_in_sync, 2);
  ASSERT_EQ(json_array_size(members), 3U);
  const auto text = [&](std::size_t at, const char* name) {
    const char* const found = json_string_value(json_object_get(json_array_get(members, at), name));
    return std::string(found == nullptr ? "null" : found);
  };
  const auto number = [&](std::size_t at, const char* name) {
    return json_integer_value(json_object_get(json_array_get(members, at), name));
  };
  EXPECT_EQ(text(0, "id") + text(0, "part") + text(0, "state") + text(0, "error"), "ain_syncfollowsnull");
  EXPECT_EQ(text(1, "id") + text(1, "part") + text(1, "state") + text(1, "address"),
            "bprimaryservestcp://h:2");
  EXPECT_EQ(text(2, "part") + text(2, "state") + text(2, "error"), "outno_answerconnect: nobody \x1b there");
  EXPECT_EQ(number(0, "epoch"), 3);
  EXPECT_EQ(number(0, "writes_lacking"), 5);
  EXPECT_TRUE(json_is_null(json_object_get(json_array_get(members, 2), "epoch")));
  EXPECT_TRUE(json_is_null(json_object_get(json_array_get(members, 2), "writes_lacking")));
}

TEST(MembersTest, MetricsTellTheState) {
  const auto state = [](std::uint64_t role, std::uint64_t loading) {
    return AnswerIn({{"loading", loading}, {"replication_role", role}}).state;
  };
  EXPECT_EQ(state(0, 0), MemberState::kIsAlone);
  EXPECT_EQ(state(1, 0), MemberState::kFollows);
  EXPECT_EQ(state(2, 0), MemberState::kOpens);
  EXPECT_EQ(state(3, 0), MemberState::kServes);
  EXPECT_EQ(state(1, 1), MemberState::kLoads);
  const MemberAnswer answer = AnswerIn({{"last_version", 7}, {"replication_epoch", 4}});
  EXPECT_EQ(answer.last_version, 7U);
  EXPECT_EQ(answer.epoch, 4U);
}

class EtcdFilesTest : public testing::Test {
 protected:
  ~EtcdFilesTest() override { std::filesystem::remove_all(folder_); }

  /// Returns the outcome of reading a file with this text and mode as the password.
  absl::Status Read(const std::string& text, mode_t mode) {
    flags_.password_file = folder_ + "/password";
    std::ofstream(flags_.password_file) << text;
    ::chmod(flags_.password_file.c_str(), mode);
    return ReadEtcdFiles(&flags_);
  }

  const std::string folder_ = [] {
    std::string name = testing::TempDir() + "/etcd_filesXXXXXX";
    return std::string(::mkdtemp(name.data()));
  }();
  EtcdFlags flags_;
};

TEST_F(EtcdFilesTest, ThePasswordIsTheFirstLine) {
  ASSERT_TRUE(Read("secret of etcd\nmore", 0600).ok());
  EXPECT_EQ(flags_.store.password, "secret of etcd");
}

TEST_F(EtcdFilesTest, FilesThatCannotBeUsedAreNamed) {
  const absl::Status open = Read("secret", 0644);
  EXPECT_TRUE(absl::IsPermissionDenied(open)) << open;
  EXPECT_THAT(std::string(open.message()),
              HasSubstr("--etcd_password_file=" + folder_ + "/password: others can"));
  const absl::Status empty = Read("\nsecret", 0600);
  EXPECT_TRUE(absl::IsInvalidArgument(empty)) << empty;
  EXPECT_THAT(std::string(empty.message()), Not(HasSubstr("secret")));
  flags_.password_file = folder_ + "/none";
  EXPECT_TRUE(absl::IsInvalidArgument(ReadEtcdFiles(&flags_)));
  flags_.password_file.clear();
  flags_.store.ca_file = folder_ + "/none";
  const absl::Status ca = ReadEtcdFiles(&flags_);
  EXPECT_TRUE(absl::IsInvalidArgument(ca)) << ca;
  EXPECT_THAT(std::string(ca.message()), HasSubstr("--etcd_ca=" + folder_ + "/none: No such file"));
}

TEST(EtcdFlagsTest, AUserNeedsAPasswordAndTheOtherWayRound) {
  EXPECT_TRUE(CheckEtcdFlags({}).ok());
  EXPECT_TRUE(CheckEtcdFlags({.store = {.user = "u"}, .password_file = "f"}).ok());
  EXPECT_FALSE(CheckEtcdFlags({.store = {.user = "u"}}).ok());
  EXPECT_FALSE(CheckEtcdFlags({.password_file = "f"}).ok());
}

TEST(EtcdFlagsTest, AShardHasItsClusterAndItsName) {
  EXPECT_EQ(FaultOfShard(kShard), "");
  for (const char* const text :
       {"", "one", "/one", "5f0c/one", "5f0c0000000000aa/", "0000000000000000/one"}) {
    EXPECT_THAT(FaultOfShard(text), HasSubstr("is no CLUSTER/NAME")) << text;
  }
}

}  // namespace
}  // namespace remora::kvctl
