// A copy of a store's files while it is written, and its way into the place of other data (V1 to V7 of
// store/durable/store_copy.h and incoming_copy.h).
#include "store/durable/store_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "replicated_fixture.h"
#include "store/durable/incoming_copy.h"
#include "store/format/wire/replication_messages.h"
#include "tests/support/patience.h"

namespace remora {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kLogBytes = std::uint64_t{64} << 20;

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

class StoreCopyTest : public ReplicatedTest {
 protected:
  StoreCopyTest() {
    EXPECT_TRUE(primary_->SetGroupSink(&groups_).ok());
    Write1("both", "new");
    Write1("only", "primary");
  }

  void Write1(std::string key, std::string value) {
    Write write = PutOf(std::move(key), std::move(value));
    SubmitPatiently(*primary_, write);
    ASSERT_TRUE(primary_->Acknowledge(groups_.last()).ok());
  }
  /// A store with other data, of groups that the primary does not have.
  void MakeOld() {
    const auto old = Open(Options("member"));
    KeptGroups groups;
    ASSERT_TRUE(old->SetGroupSink(&groups).ok());
    for (const std::string key : {"both", "lost"}) {
      Write write = PutOf(key, "old");
      SubmitPatiently(*old, write);
    }
    ASSERT_TRUE(old->Acknowledge(groups.last()).ok());
    std::ofstream(dir() + "/REMORA-MEMBER") << "life\n";
    std::ofstream(dir() + "/REMORA-SHARD-note") << "of the operator\n";
  }
  std::string dir() const { return temp_ / "member"; }

  static absl::Status SendFile(StoreCopy& from, const StoreCopy::File& file, IncomingCopy& to) {
    absl::Status status = to.BeginFile(file.name, file.size);
    std::uint64_t checksum = 0;
    std::string part;
    for (std::uint64_t at = 0; status.ok() && at < file.size; at += part.size()) {
      part.resize(std::min<std::uint64_t>(1000, file.size - at));
      status = from.Read(file, at, part);
      checksum = NextCopyChecksum(checksum, BytesOf(part));
      if (status.ok()) status = to.Write(BytesOf(part));
    }
    return status.ok() ? to.EndFile(checksum) : status;
  }
  /// Returns the checksum of a file in parts of kCopyPart.
  static std::uint64_t ChecksumOf(StoreCopy& from, const StoreCopy::File& file) {
    std::uint64_t checksum = 0;
    std::string part;
    for (std::uint64_t at = 0; at < file.size; at += part.size()) {
      part.resize(std::min<std::uint64_t>(kCopyPart, file.size - at));
      EXPECT_TRUE(from.Read(file, at, part).ok());
      checksum = NextCopyChecksum(checksum, BytesOf(part));
    }
    return checksum;
  }
  static std::vector<StoreCopy::File> TablesOf(const StoreCopy& copy) {
    std::vector<StoreCopy::File> tables = copy.files();
    std::erase_if(tables, [](const StoreCopy::File& file) { return !file.name.ends_with(".sst"); });
    return tables;
  }
  /// Sends all tables of a copy to the member, and half of a further one; then the connection ends.
  void CopyTables() {
    auto from = primary_->BeginCopy();
    ASSERT_TRUE(from.ok()) << from.status();
    auto to = IncomingCopy::Begin(dir(), (*from)->bytes());
    ASSERT_TRUE(to.ok()) << to.status();
    for (const StoreCopy::File& table : TablesOf(**from)) {
      const absl::Status sent = SendFile(**from, table, **to);
      ASSERT_TRUE(sent.ok()) << sent;
    }
    ASSERT_TRUE((*to)->BeginFile("999999.sst", 100).ok());
    ASSERT_TRUE((*to)->Write(BytesOf("half")).ok());
    ASSERT_TRUE((*to)->AddGroup(1, 8, 0, BytesOf("half")).ok());
  }
  absl::Status SendGroups(std::uint64_t after, IncomingCopy& to) {
    for (std::uint64_t number = after + 1; number <= groups_.last(); ++number) {
      const std::string& group = groups_.group(number);
      const std::string_view half = std::string_view(group).substr(0, group.size() / 2);
      absl::Status status = to.AddGroup(number, group.size(), 0, BytesOf(half));
      if (status.ok()) {
        status = to.AddGroup(number, group.size(), half.size(),
                             BytesOf(std::string_view(group).substr(half.size())));
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  /// Copies the primary's data to the member, while it is written.
  void Copy() {
    auto from = primary_->BeginCopy();
    ASSERT_TRUE(from.ok()) << from.status();
    auto to = IncomingCopy::Begin(dir(), (*from)->bytes());
    ASSERT_TRUE(to.ok()) << to.status();
    for (const StoreCopy::File& file : (*from)->files()) {
      const absl::Status sent = SendFile(**from, file, **to);
      ASSERT_TRUE(sent.ok()) << sent;
      Write1(absl::StrCat("during ", file.name), "1");
    }
    const absl::Status groups = SendGroups((*from)->after(), **to);
    ASSERT_TRUE(groups.ok()) << groups;
    const absl::Status ended = (*to)->End((*from)->files().size(), "REMORA-REPLICATION", "history\n");
    ASSERT_TRUE(ended.ok()) << ended;
  }
  void Accept() {
    const absl::Status accepted = AcceptCopy(dir());
    ASSERT_TRUE(accepted.ok()) << accepted;
  }
  void ExpectCopied() {
    EXPECT_FALSE(std::filesystem::exists(dir() + "/REMORA-MEMBER")) << "V6";
    EXPECT_TRUE(std::filesystem::exists(dir() + "/REMORA-REPLICATION"));
    EXPECT_TRUE(std::filesystem::exists(dir() + "/REMORA-SHARD-note"));
    for (const auto& entry : std::filesystem::directory_iterator(dir())) {
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("REMORA-COPY")));
    }
    const auto member = Open(FollowerOptions("member"));
    EXPECT_EQ(member->last_group(), groups_.last()) << "V6";
    EXPECT_EQ(Contents(*member), Contents(*primary_));
    Write1("later", "1");
    Deliver(*member, groups_, groups_.last());
    EXPECT_EQ(Contents(*member), Contents(*primary_));
  }
  void ExpectOld() {
    EXPECT_TRUE(std::filesystem::exists(dir() + "/REMORA-MEMBER"));
    const auto member = Open(FollowerOptions("member"));
    EXPECT_EQ(Get(*member, "lost"), "old");
    EXPECT_EQ(Get(*member, "both"), "old");
    EXPECT_EQ(Get(*member, "only"), "NOT_FOUND");
  }
  InstalledCopy Install() {
    const auto installed = InstallCopy(dir(), kLogBytes);
    EXPECT_TRUE(installed.ok()) << installed.status();
    return installed.value_or(InstalledCopy::kNone);
  }

  KeptGroups groups_;
  std::unique_ptr<ServerStore> primary_ = Open(Options("primary"));
};

TEST_F(StoreCopyTest, ACopyTakesThePlaceOfOtherData) {
  MakeOld();
  EXPECT_EQ(Install(), InstalledCopy::kNone);
  Copy();
  Accept();
  EXPECT_EQ(Install(), InstalledCopy::kReplaced);
  ExpectCopied();
  EXPECT_EQ(Install(), InstalledCopy::kNone);
}

TEST_F(StoreCopyTest, TablesStayWhileThereIsACopy) {  // V2
  const auto copy = primary_->BeginCopy();
  ASSERT_TRUE(copy.ok()) << copy.status();
  const auto is_table = [](const StoreCopy::File& file) { return file.name.ends_with(".sst"); };
  const auto tables = [&](const StoreCopy& of) {
    return std::ranges::count_if(of.files(), [&](const StoreCopy::File& file) {
      return is_table(file) &&
             std::ranges::find((*copy)->files(), file.name, &StoreCopy::File::name) != (*copy)->files().end();
    });
  };
  const auto before = tables(**copy);
  ASSERT_GT(before, 0);
  // Each copy flushes, so there are tables to compact, until the database has none of the first copy any
  // more.
  const auto deadline = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
  for (int i = 0;; ++i) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it compacts";
    Write1("both", absl::StrCat(i));
    const auto next = primary_->BeginCopy();
    ASSERT_TRUE(next.ok()) << next.status();
    if (tables(**next) < before) break;
  }
  // RocksDB deletes in a thread of its own. A file that is to stay stays at each look.
  for (int look = 0; look < 40; ++look) {
    for (const StoreCopy::File& file : (*copy)->files()) {
      std::string bytes(file.size, '\0');
      ASSERT_TRUE((*copy)->Read(file, 0, bytes).ok()) << file.name;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_F(StoreCopyTest, ACopyThatIsNotAcceptedIsLeftAside) {  // V3
  MakeOld();
  Copy();
  EXPECT_EQ(Install(), InstalledCopy::kPart);
  ExpectOld();
  EXPECT_EQ(Install(), InstalledCopy::kPart);
  RemoveIncomingCopy(dir());
  EXPECT_EQ(Install(), InstalledCopy::kNone);
}

TEST_F(StoreCopyTest, ACopyGoesOnFromTheTablesThatCame) {  // V7
  MakeOld();
  CopyTables();
  EXPECT_EQ(Install(), InstalledCopy::kPart) << "the member starts again";
  Write1("meanwhile", "1");
  auto from = primary_->BeginCopy();
  ASSERT_TRUE(from.ok()) << from.status();
  auto to = IncomingCopy::Begin(dir(), (*from)->bytes());
  ASSERT_TRUE(to.ok()) << to.status();
  EXPECT_GE((*to)->earlier(), 2);
  std::size_t kept = 0;
  for (const StoreCopy::File& file : (*from)->files()) {
    if (file.name.ends_with(".sst")) {
      const auto is_there = (*to)->Keep(file.name, file.size, ChecksumOf(**from, file));
      ASSERT_TRUE(is_there.ok()) << is_there.status();
      kept += *is_there ? 1 : 0;
      if (*is_there) continue;
    }
    const absl::Status sent = SendFile(**from, file, **to);
    ASSERT_TRUE(sent.ok()) << sent;
  }
  EXPECT_GE(kept, 1);
  Write1("later", "1");
  const absl::Status groups = SendGroups((*from)->after(), **to);
  ASSERT_TRUE(groups.ok()) << groups;
  const absl::Status ended = (*to)->End((*from)->files().size(), "REMORA-REPLICATION", "history\n");
  ASSERT_TRUE(ended.ok()) << ended;
  EXPECT_FALSE(std::filesystem::exists(dir() + "/REMORA-COPY/999999.sst"));
  Accept();
  EXPECT_EQ(Install(), InstalledCopy::kReplaced);
  ExpectCopied();
}

TEST_F(StoreCopyTest, ATableOfAnEarlierCopyIsKeptOnlyIfItIsThePrimarys) {  // V7; adversarial
  MakeOld();
  CopyTables();
  const auto from = primary_->BeginCopy();
  ASSERT_TRUE(from.ok()) << from.status();
  auto to = IncomingCopy::Begin(dir(), (*from)->bytes());
  ASSERT_TRUE(to.ok()) << to.status();
  const StoreCopy::File table = TablesOf(**from).front();
  const std::uint64_t checksum = ChecksumOf(**from, table);
  const auto keeps = [&to](const std::string& name, std::uint64_t size, std::uint64_t of) {
    const auto kept = (*to)->Keep(name, size, of);
    EXPECT_TRUE(kept.ok()) << kept.status();
    return kept.ok() && *kept;
  };
  EXPECT_FALSE(keeps(table.name, table.size, checksum + 1));
  EXPECT_FALSE(keeps(table.name, table.size - 1, checksum));
  EXPECT_FALSE(keeps("999999.sst", 4, checksum));
  EXPECT_FALSE(keeps("000000.sst", table.size, checksum));
  for (const std::string name : {"CURRENT", "../x.sst", "MANIFEST-000001", ""}) {
    EXPECT_TRUE(absl::IsInvalidArgument((*to)->Keep(name, 1, 1).status())) << name;
  }
  const std::string path = dir() + "/REMORA-COPY/" + table.name;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const int first = file.get();
  file.seekp(0);
  file.put(static_cast<char>(first ^ 1));
  file.close();
  EXPECT_FALSE(keeps(table.name, table.size, checksum)) << "the disk has damaged it";
  file.open(path, std::ios::in | std::ios::out | std::ios::binary);
  file.put(static_cast<char>(first));
  file.close();
  EXPECT_TRUE(keeps(table.name, table.size, checksum));
  EXPECT_FALSE(keeps(table.name, table.size, checksum)) << "once";
  ASSERT_TRUE((*to)->BeginFile("1.sst", 3).ok());
  EXPECT_TRUE(absl::IsInvalidArgument((*to)->Keep(table.name, table.size, checksum).status()));
}

TEST_F(StoreCopyTest, ACrashAtAnyStepLeavesOneOfTheTwo) {  // V4
  MakeOld();
  Copy();
  Accept();
  std::filesystem::copy(dir(), temp_ / "kept", std::filesystem::copy_options::recursive);
  int steps = 0;
  for (bool is_done = false; !is_done; ++steps) {
    std::filesystem::remove_all(dir());
    std::filesystem::copy(temp_ / "kept", dir(), std::filesystem::copy_options::recursive);
    int left = steps;
    const auto crashed = InstallCopy(dir(), kLogBytes, [&left]() -> absl::Status {
      return left-- == 0 ? absl::CancelledError("crash") : absl::OkStatus();
    });
    is_done = crashed.ok();
    if (is_done) break;
    ASSERT_TRUE(absl::IsCancelled(crashed.status())) << crashed.status();
    // A second crash, one step later than the first one.
    left = 1;
    InstallCopy(dir(), kLogBytes, [&left]() -> absl::Status {
      return left-- == 0 ? absl::CancelledError("crash") : absl::OkStatus();
    }).IgnoreError();
    ASSERT_NE(Install(), InstalledCopy::kPart) << steps;
    const auto member = Open(FollowerOptions("member"));
    ASSERT_EQ(member->last_group(), groups_.last()) << steps;
    ASSERT_EQ(Contents(*member), Contents(*primary_)) << steps;
    ASSERT_FALSE(std::filesystem::exists(dir() + "/REMORA-MEMBER")) << steps;
  }
  EXPECT_GT(steps, 10);
}

TEST_F(StoreCopyTest, ADamagedCopyIsRemovedAndTheDataStay) {  // V5
  MakeOld();
  Copy();
  Accept();
  std::ofstream(dir() + "/REMORA-COPY/CURRENT") << "MANIFEST-999999\n";
  const auto installed = InstallCopy(dir(), kLogBytes);
  EXPECT_EQ(installed.status().code(), absl::StatusCode::kAborted) << installed.status();
  EXPECT_THAT(std::string(installed.status().message()), HasSubstr("the data are as they were"));
  EXPECT_EQ(Install(), InstalledCopy::kNone);
  ExpectOld();
}

TEST_F(StoreCopyTest, AGroupThatIsMissingOrDamagedEndsTheCopy) {  // V5
  MakeOld();
  Copy();
  Accept();
  const std::string path = dir() + "/REMORA-COPY-GROUPS";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(40);
  file.put('\xff');
  file.close();
  EXPECT_EQ(InstallCopy(dir(), kLogBytes).status().code(), absl::StatusCode::kAborted);
  ExpectOld();
}

TEST_F(StoreCopyTest, WhatBreaksTheProtocolIsRejected) {
  MakeOld();
  const auto begin = [this] { return *IncomingCopy::Begin(dir(), 1000); };
  for (const std::string name :
       {"", ".", "..", "../x.sst", "a/b.sst", "REMORA-MEMBER", "REMORA", ".sst", "x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(begin()->BeginFile(name, 1))) << name;
  }
  auto copy = begin();
  EXPECT_TRUE(absl::IsInvalidArgument(copy->Write(BytesOf("x"))));
  EXPECT_TRUE(copy->BeginFile("1.sst", 3).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(copy->BeginFile("2.sst", 3)));
  EXPECT_TRUE(absl::IsInvalidArgument(copy->Write(BytesOf("four"))));
  EXPECT_TRUE(copy->Write(BytesOf("abc")).ok());
  EXPECT_TRUE(absl::IsDataLoss(copy->EndFile(1))) << "V5";
  copy = begin();
  EXPECT_TRUE(absl::IsInvalidArgument(copy->End(0, "name", "text"))) << "no database came";
  EXPECT_TRUE(absl::IsInvalidArgument(copy->AddGroup(0, 4, 0, BytesOf("four"))));
  EXPECT_TRUE(copy->AddGroup(5, 4, 0, BytesOf("four")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(copy->AddGroup(7, 4, 0, BytesOf("four"))));
  EXPECT_TRUE(copy->AddGroup(6, 8, 0, BytesOf("four")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(copy->AddGroup(6, 8, 2, BytesOf("four"))));
  EXPECT_TRUE(absl::IsInvalidArgument(copy->AddGroup(7, 4, 0, BytesOf("four"))));
  copy = begin();
  copy.reset();
  ExpectOld();
}

TEST_F(StoreCopyTest, ADiskWithoutSpaceIsNamedBeforeAnythingComes) {
  MakeOld();
  const auto copy = IncomingCopy::Begin(dir(), std::uint64_t{1} << 60);
  EXPECT_TRUE(absl::IsResourceExhausted(copy.status())) << copy.status();
  EXPECT_THAT(std::string(copy.status().message()), HasSubstr("has no space for a copy of"));
  EXPECT_EQ(Install(), InstalledCopy::kNone);
  ExpectOld();
}

TEST_F(StoreCopyTest, ADamagedStateIsNamed) {
  MakeOld();
  std::ofstream(dir() + "/REMORA-COPY-STATE") << "nonsense\n";
  EXPECT_TRUE(absl::IsDataLoss(InstallCopy(dir(), kLogBytes).status()));
}

}  // namespace
}  // namespace remora
