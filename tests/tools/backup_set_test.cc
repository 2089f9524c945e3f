// The file of a set of backups.
#include "tools/kvctl/sets/backup_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"

namespace remora::kvctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Topology Two(std::uint64_t cluster = 0x0123456789abcdef) {
  const std::vector<std::string> servers = {"local:///a", "tcp://kv:7470"};
  return *Topology::Even(servers, cluster);
}

BackupSet Three() {
  return {3,
          1795305600,
          Two(),
          {{.id = 5, .unix_s = 0, .version = 1234, .bytes = 4096, .new_bytes = 512},
           {.id = 9, .unix_s = 0, .version = 77, .bytes = 100, .new_bytes = 100}}};
}

TEST(BackupSetTest, ItComesBack) {
  const std::string text = ToText(Three());
  const absl::StatusOr<BackupSet> set = ParseBackupSet(text, "set-3");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(ToText(*set), text);
  EXPECT_EQ(set->topology.ToText(), Two().ToText());
  EXPECT_EQ(set->backups[1].version, 77u);
  EXPECT_EQ(SetLines(*set), "set 3\nshards 2\nbytes 4196\nnew_bytes 612\n");
}

TEST(BackupSetTest, EachChangedByteIsNoticed) {
  const std::string text = ToText(Three());
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(ParseBackupSet(changed, "set-3").ok()) << i << ": " << changed;
    EXPECT_FALSE(ParseBackupSet(text.substr(0, i), "set-3").ok()) << i;
  }
}

TEST(BackupSetTest, FieldsAreCheckedBehindTheChecksum) {
  const std::string text = ToText(Three());
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{R"("set":3)", R"("set":0)"},
                                                        {R"("set":3)", R"("set":4294967296)"},
                                                        {R"("set":3,)", ""},
                                                        {R"("unix_s":1795305600)", R"("unix_s":-1)"},
                                                        {R"("backup":5)", R"("backup":"5")"},
                                                        {R"("version":77)", R"("version":7.7)"},
                                                        {R"("shard":"1")", R"("shard":"2")"},
                                                        {"0-8191", "0-8190"},
                                                        {R"({"shard")", R"(7,{"shard")"}}) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    const absl::Status status = ParseBackupSet(WithChecksum(changed), "set-3").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << changed;
    EXPECT_THAT(std::string(status.message()), HasSubstr("set-3 is damaged"));
  }
  EXPECT_TRUE(ParseBackupSet(WithChecksum(text), "set-3").ok());
}

TEST(BackupSetTest, AnotherFormatIsNamed) {
  const std::string text = absl::StrReplaceAll(ToText(Three()), {{"_set\":1", "_set\":2"}});
  const absl::Status status = ParseBackupSet(text, "set-3").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has format 2, and this kvctl knows format 1"));
}

TEST(BackupSetTest, FilesOfADirectory) {
  const std::string dir = testing::TempDir() + "/backup_sets";
  std::filesystem::remove_all(dir);
  EXPECT_EQ(ListSets(dir).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(WriteBackupSet(dir, Three()).code(), absl::StatusCode::kNotFound);
  std::filesystem::create_directory(dir);
  for (const char* const name :
       {"/set-x", "/set-", "/set-07", "/set-4294967296", "/set-9.new", "/set-lock"}) {
    ASSERT_TRUE(WriteWhole(dir, std::string(name).substr(1), "x").ok());
  }
  EXPECT_EQ(ReadBackupSet(dir, 0).status().code(), absl::StatusCode::kNotFound);
  BackupSet set = Three();
  for (const std::uint32_t number : {12u, 3u}) {
    set.number = number;
    ASSERT_TRUE(WriteBackupSet(dir, set).ok());
  }
  EXPECT_THAT(*ListSets(dir), ElementsAre(3, 12));
  EXPECT_EQ(ReadBackupSet(dir, 0)->number, 12u);
  EXPECT_EQ(ReadBackupSet(dir, 3)->number, 3u);
  EXPECT_EQ(ReadBackupSet(dir, 4).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(IsNameOfSets("set-lock") && IsNameOfSets("topology") && !IsNameOfSets("sets"));
}

TEST(BackupSetTest, TheClusterIsCompared) {
  EXPECT_TRUE(CheckIsOf(Three(), Two()).ok());
  EXPECT_EQ(CheckIsOf(Three(), Two(7)).code(), absl::StatusCode::kFailedPrecondition);
  const std::vector<std::string> elsewhere = {"local:///c", "local:///d"};
  EXPECT_TRUE(CheckIsOf(Three(), *Topology::Even(elsewhere, Two().cluster())).ok());
  const std::vector<std::string> three = {"local:///a", "local:///b", "local:///c"};
  EXPECT_THAT(std::string(CheckIsOf(Three(), *Topology::Even(three, Two().cluster())).message()),
              HasSubstr("other shards or slots"));
}

}  // namespace
}  // namespace remora::kvctl
