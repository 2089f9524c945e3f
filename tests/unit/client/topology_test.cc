// The file of a topology: everything that is wrong with one is said.
#include "client/cluster/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "store/format/cluster/slot.h"

namespace remora {
namespace {

using testing::HasSubstr;

constexpr char kTwoShards[] =
    "# Two shards.\n"
    "\n"
    "remora-topology 1\n"
    "shard a 0-8191 local:///run/a.sock\n"
    "  shard\tb 8192-16000,16001,16002-16383   tcp://kv1:7470,local:///run/b c.sock \r\n";

std::string FaultOf(const std::string& text) {
  const absl::StatusOr<Topology> topology = Topology::Parse(text, "file");
  EXPECT_TRUE(absl::IsInvalidArgument(topology.status())) << topology.status() << "\n" << text;
  return std::string(topology.status().message());
}
/// The fault of a file with these lines behind its head.
std::string FaultOfShards(const std::string& lines) { return FaultOf("remora-topology 1\n" + lines); }

TEST(TopologyFile, HasShardsWithSlotsAndAddresses) {
  const absl::StatusOr<Topology> topology = Topology::Parse(kTwoShards, "file");
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_EQ(topology->shards().size(), 2u);
  EXPECT_EQ(topology->shards()[0].name, "a");
  EXPECT_EQ(topology->shards()[1].addresses, "tcp://kv1:7470,local:///run/b c.sock");
  EXPECT_THAT(topology->shards()[1].slots,
              testing::ElementsAre(SlotRange{8192, 16000}, SlotRange{16001, 16001}, SlotRange{16002, 16383}));
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    ASSERT_EQ(topology->ShardOfSlot(slot), slot < 8192 ? 0u : 1u) << slot;
  }
  EXPECT_EQ(topology->ShardOf("a"), 0u);    // slot 3615
  EXPECT_EQ(topology->ShardOf("key"), 1u);  // slot 9699
}

TEST(TopologyFile, IsReadAsItWasWritten) {
  const absl::StatusOr<Topology> topology = Topology::Parse(kTwoShards, "file");
  ASSERT_TRUE(topology.ok());
  const std::string text = topology->ToText();
  const absl::StatusOr<Topology> again = Topology::Parse(text, "file");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(again->ToText(), text);
  EXPECT_EQ(again->shards()[1].addresses, topology->shards()[1].addresses);
}

TEST(TopologyFile, EvenDivisionGivesEachServerAsMany) {
  for (const std::size_t count : {1u, 2u, 3u, 7u, 1024u}) {
    std::vector<std::string> servers;
    for (std::size_t i = 0; i < count; ++i) servers.push_back("local:///run/" + std::to_string(i));
    const absl::StatusOr<Topology> topology = Topology::Even(servers);
    ASSERT_TRUE(topology.ok()) << topology.status();
    std::vector<std::uint32_t> slots(count);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) ++slots[topology->ShardOfSlot(slot)];
    for (const std::uint32_t number : slots) {
      EXPECT_GE(number, kSlots / count);
      EXPECT_LE(number, kSlots / count + 1);
    }
    const absl::StatusOr<Topology> again = Topology::Parse(topology->ToText(), "file");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->ToText(), topology->ToText());
  }
}

TEST(TopologyFile, EvenDivisionRejectsWrongServers) {
  const auto fault = [](std::vector<std::string> servers) {
    const absl::Status status = Topology::Even(servers).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(fault({}), HasSubstr("0 servers; a cluster has 1 to 1024"));
  EXPECT_THAT(fault(std::vector<std::string>(1025, "local:///a")), HasSubstr("1025 servers"));
  EXPECT_THAT(fault({"local:///a", "local:///a"}),
              HasSubstr("shard 1 has the address local:///a, and so has shard 0"));
  EXPECT_THAT(fault({"kv1:7470"}), HasSubstr("shard 0: "));
  EXPECT_THAT(fault({"local:///a\nshard b 1 local:///b"}), HasSubstr("control character"));
  EXPECT_THAT(fault({"local:///a "}), HasSubstr("blanks at an end"));
}

TEST(TopologyFile, ErrorsNameTheLine) {
  EXPECT_THAT(FaultOf("# only\n\n"),
              HasSubstr("file: it is empty; it begins with the line 'remora-topology 2'"));
  EXPECT_THAT(FaultOf("{\"shards\": []}\n"), HasSubstr("file:1: no file of a topology"));
  EXPECT_THAT(FaultOf("\nremora-topology 3\n"), HasSubstr("file:2: version '3'"));
  EXPECT_THAT(FaultOf("remora-topology\n"), HasSubstr("file:1: version ''"));
  EXPECT_THAT(FaultOfShards(""), HasSubstr("file: it has no shard"));
  EXPECT_THAT(FaultOfShards("\nserver a 0-1 local:///a"), HasSubstr("file:3: a line begins with 'server'"));
}

TEST(TopologyFile, NamesTheIdentityOfEachShard) {
  const std::string shards = "shard a 0-8191 local:///a\nshard b 8192-16383 local:///b\n";
  const auto topology = Topology::Parse("remora-topology 2\ncluster 00f6d081884c7d65\n" + shards, "file");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->cluster(), 0xf6d081884c7d65u);
  EXPECT_EQ(IdentityText(topology->IdentityOfShard(1)), "00f6d081884c7d65/b");
  EXPECT_EQ(topology->ToText(), "remora-topology 2\ncluster 00f6d081884c7d65\n" + shards);
  // The line of the cluster may stand behind shards, too.
  EXPECT_TRUE(Topology::Parse("remora-topology 2\n" + shards + "cluster 00f6d081884c7d65", "file").ok());
  // Version 1 knows none.
  const auto older = Topology::Parse("remora-topology 1\n" + shards, "file");
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(older->cluster(), 0u);
  EXPECT_EQ(older->IdentityOfShard(1), IdentityOf(0, "b"));
  EXPECT_EQ(older->ToText(), "remora-topology 1\n" + shards);
}

TEST(TopologyFile, ErrorsNameTheCluster) {
  const std::string shard = "shard a 0-16383 local:///a\n";
  EXPECT_THAT(FaultOf("remora-topology 2\n" + shard), HasSubstr("file: it has no line 'cluster ID'"));
  for (const char* const wrong : {"", "x", "0000000000000000", "9F86d081884c7d65", "9f86d081884c7d65 a"}) {
    EXPECT_THAT(FaultOf(std::string("remora-topology 2\ncluster ") + wrong + "\n" + shard),
                HasSubstr("file:2: a cluster is called"))
        << wrong;
  }
  EXPECT_THAT(FaultOf("remora-topology 2\ncluster 9f86d081884c7d65\ncluster 9f86d081884c7d65\n" + shard),
              HasSubstr("file:3: the cluster is there already"));
  EXPECT_THAT(FaultOfShards("cluster 9f86d081884c7d65\n" + shard),
              HasSubstr("file:2: a line begins with 'cluster'"));
}

TEST(TopologyFile, ErrorsNameTheShard) {
  EXPECT_THAT(FaultOfShards("shard a/b 0 local:///a"), HasSubstr("file:2: a shard is called 'a/b'"));
  EXPECT_THAT(FaultOfShards("shard " + std::string(33, 'a') + " 0 local:///a"), HasSubstr("1 to 32 letters"));
  EXPECT_THAT(FaultOfShards("shard a 0-16383"), HasSubstr("shard a has no address"));
  EXPECT_THAT(FaultOfShards("shard"), HasSubstr("a shard is called ''"));
  EXPECT_THAT(FaultOfShards("shard a 0-16383 kv1:7470"), HasSubstr("file:2: shard a: "));
  EXPECT_THAT(FaultOfShards("shard a 0-8191 local:///a\nshard a 8192-16383 local:///b"),
              HasSubstr("file:3: shard a is there already (line 2)"));
  EXPECT_THAT(FaultOfShards("shard a 0-8191 tcp://kv:1,local:///a\nshard b 8192-16383 tcp://kv:2,local:///a"),
              HasSubstr("file:3: shard b has the address local:///a, and so has shard a"));
  EXPECT_THAT(FaultOfShards("shard a 0-16383 tcp://kv:1,tcp://kv:1"),
              HasSubstr("shard a has the address tcp://kv:1, twice"));
}

TEST(TopologyFile, ErrorsNameTheSlot) {
  for (const char* const wrong :
       {"16384", "x", "1-", "-1", "1-2-3", "0x1", "+1", "99999999999999999999", "1,", ",1"}) {
    EXPECT_THAT(FaultOfShards(std::string("shard a ") + wrong + " local:///a"),
                HasSubstr("is no slot; slots are 0 to 16383"))
        << wrong;
  }
  EXPECT_THAT(FaultOfShards("shard a 9-8 local:///a"), HasSubstr("the slots '9-8' run backwards"));
  EXPECT_THAT(FaultOfShards("shard a 0-10,5 local:///a"), HasSubstr("shard a has slot 5 twice"));
  EXPECT_THAT(FaultOfShards("shard a 0-8192 local:///a\nshard b 8192-16383 local:///b"),
              HasSubstr("file:3: shard b has slot 8192, and so has shard a"));
  EXPECT_THAT(FaultOfShards("shard a 0-8190 local:///a\nshard b 8192-16383 local:///b"),
              HasSubstr("file: slot 8191 of 16384 belong"));
  EXPECT_THAT(FaultOfShards("shard a 0-99 local:///a"),
              HasSubstr("slots 100 to 16383 of 16384 belong to no shard"));
}

TEST(TopologyFile, HasABoundedNumberOfShards) {
  std::string lines;
  for (std::size_t i = 0; i <= kMaxShards; ++i) {
    lines +=
        "shard s" + std::to_string(i) + " " + std::to_string(i) + " local:///" + std::to_string(i) + "\n";
  }
  EXPECT_THAT(FaultOfShards(lines), HasSubstr("shard s1024 is one too many; a cluster has up to 1024"));
}

/// A file below a directory of its own.
class TopologyOnDisk : public testing::Test {
 protected:
  TopologyOnDisk() {
    char name[] = "/tmp/remora_topology_XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    path_ = directory_ + "/topology";
  }
  ~TopologyOnDisk() override { std::filesystem::remove_all(directory_); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  std::string directory_, path_;
};

TEST_F(TopologyOnDisk, IsRead) {
  Write(kTwoShards);
  const absl::StatusOr<Topology> topology = Topology::Read(path_);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->shards().size(), 2u);
}

TEST_F(TopologyOnDisk, ErrorsNameTheFile) {
  EXPECT_TRUE(absl::IsNotFound(Topology::Read(path_).status()));
  EXPECT_THAT(std::string(Topology::Read(path_).status().message()), HasSubstr(path_));
  EXPECT_THAT(std::string(Topology::Read(directory_).status().message()), HasSubstr("it is a directory"));
  Write("remora-topology 1\nshard a 0-99 local:///a\n");
  EXPECT_THAT(std::string(Topology::Read(path_).status().message()), HasSubstr(path_ + ": slots 100 to"));
  Write(std::string(kMaxTopologyBytes + 1, '\n'));
  EXPECT_THAT(std::string(Topology::Read(path_).status().message()), HasSubstr("more than 1048576 bytes"));
}

/// Expects that the bytes are rejected with one line of text, or give a topology that is written as it was
/// read.
void ExpectRejectedOrWhole(const std::string& text) {
  const absl::StatusOr<Topology> topology = Topology::Parse(text, "file");
  if (!topology.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(topology.status()));
    const std::string message(topology.status().message());
    EXPECT_EQ(message.rfind("file", 0), 0u) << message;
    EXPECT_EQ(message.find_first_of(std::string("\n\r\t\0", 4)), std::string::npos) << message;
    return;
  }
  const std::string written = topology->ToText();
  const absl::StatusOr<Topology> again = Topology::Parse(written, "file");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << written;
  EXPECT_EQ(again->ToText(), written);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    ASSERT_LT(topology->ShardOfSlot(slot), topology->shards().size());
    ASSERT_EQ(topology->ShardOfSlot(slot), again->ShardOfSlot(slot));
  }
}

class BrokenTopology : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, BrokenTopology, testing::Values(1u, 2u, 3u, 4u));

TEST_P(BrokenTopology, IsRejectedOrWhole) {
  std::mt19937 random(GetParam());
  const std::string pieces[] = {"shard",      "remora-topology 1",
                                "0-8191",     ",",
                                "-",          "\n",
                                " ",          "16383",
                                "local:///a", "tcp://kv1:7470",
                                "#",          std::string(1, '\0'),
                                "\xff",       "\t",
                                "99999999999"};
  for (int i = 0; i < 500; ++i) {
    std::string text = kTwoShards;
    for (std::uint32_t changes = random() % 4 + 1; changes > 0; --changes) {
      const std::size_t at = random() % (text.size() + 1);
      const std::size_t size = std::min<std::size_t>(random() % 12, text.size() - at);
      switch (random() % 3) {
        case 0:
          text.erase(at, size);
          break;
        case 1:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        default:
          text.insert(random() % (text.size() + 1), text.substr(at, size));
      }
    }
    ExpectRejectedOrWhole(text);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace remora
