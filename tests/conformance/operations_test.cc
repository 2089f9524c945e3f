// GET, PUT and DELETE, wherever the store is.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "store/format/memory/layout.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

INSTANTIATE_TEST_SUITE_P(On, Behaviour,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

std::string Pattern(std::size_t size, unsigned seed) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 131 + i / 251 + seed * 29) & 0xff);
  return bytes;
}

TEST_P(Behaviour, AStoredKeyIsFound) {
  START();
  EXPECT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(Behaviour, TheLastPutCounts) {
  START();
  EXPECT_CODE(kOk, Put("key", "first"));
  EXPECT_CODE(kOk, Put("key", "second, and longer than before by far"));
  EXPECT_EQ(Get("key"), "second, and longer than before by far");
  EXPECT_CODE(kOk, Put("key", "3"));
  EXPECT_EQ(Get("key"), "3");
  EXPECT_EQ(store().Read(Metric::kKeys), 1u);
}

TEST_P(Behaviour, AnUnknownKeyIsNotFound) {
  START();
  EXPECT_CODE(kNotFound, GetStatus("key"));
  EXPECT_CODE(kOk, Put("key", "value"));
  EXPECT_CODE(kNotFound, GetStatus("ke"));
  EXPECT_CODE(kNotFound, GetStatus("key "));
}

TEST_P(Behaviour, AMissLeavesTheCallersValueAlone) {
  START();
  std::string value = "untouched";
  EXPECT_CODE(kNotFound, kv_->Get("key", &value));
  EXPECT_EQ(value, "untouched");
}

TEST_P(Behaviour, ADeletedKeyIsNotFound) {
  START();
  EXPECT_CODE(kOk, Put("key", "value"));
  EXPECT_CODE(kOk, Delete("key"));
  EXPECT_CODE(kNotFound, GetStatus("key"));
  EXPECT_CODE(kNotFound, Delete("key"));
  EXPECT_CODE(kOk, Put("key", "again"));
  EXPECT_EQ(Get("key"), "again");
}

TEST_P(Behaviour, DeletingWhatIsNotThereSaysSo) {
  START();
  EXPECT_CODE(kNotFound, Delete("key"));
}

TEST_P(Behaviour, KeysAndValuesOfEverySizeComeBackWhole) {
  START();
  const std::vector<std::size_t> value_sizes = {0,
                                                1,
                                                15,
                                                16,
                                                17,
                                                63,
                                                64,
                                                239,
                                                240,
                                                241,
                                                1000,
                                                4047,
                                                4048,
                                                4049,
                                                4096,
                                                65535,
                                                65536,
                                                70001,
                                                131072,
                                                200001,
                                                kMaxSmallValueSize - 1,
                                                kMaxSmallValueSize};
  unsigned seed = 0;
  for (const std::size_t key_size :
       {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{255}, kMaxKeySize}) {
    for (const std::size_t value_size : value_sizes) {
      const std::string key = Pattern(key_size, 7);
      const std::string value = Pattern(value_size, ++seed);
      ASSERT_CODE(kOk, Put(key, value));
      ASSERT_EQ(Get(key), value) << key_size << " " << value_size;
    }
  }
}

TEST_P(Behaviour, BytesOfEveryKindComeBack) {
  START();
  const std::string key("\0k\xff\n\0", 5);
  const std::string value("\0\0v\r\n\x80\0", 7);
  EXPECT_CODE(kOk, Put(key, value));
  EXPECT_EQ(Get(key), value);
  EXPECT_CODE(kNotFound, GetStatus(std::string("\0k\xff\n", 4)));
}

TEST_P(Behaviour, SizesOutOfBoundsAreRejectedAndChangeNothing) {
  START();
  const std::string long_key(kMaxKeySize + 1, 'k');
  EXPECT_CODE(kInvalidArgument, Put("", "value"));
  EXPECT_CODE(kInvalidArgument, Put(long_key, "value"));
  EXPECT_CODE(kInvalidArgument, Put("key", std::string(kMaxValueSize + 1, 'v')));
  EXPECT_CODE(kInvalidArgument, GetStatus(""));
  EXPECT_CODE(kInvalidArgument, GetStatus(long_key));
  EXPECT_CODE(kInvalidArgument, Delete(""));
  EXPECT_CODE(kInvalidArgument, Delete(long_key));
  EXPECT_EQ(store().Read(Metric::kKeys), 0u);
  EXPECT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(Behaviour, OneClientsWriteIsEveryClientsRead) {
  START();
  const std::unique_ptr<KeyValue> other = Connect();
  for (int i = 0; i < 50; ++i) {
    ASSERT_CODE(kOk, Put("key", std::to_string(i)));
    ASSERT_EQ(Get(*other, "key"), std::to_string(i));
    ASSERT_CODE(kOk, other->Put("key", "other " + std::to_string(i)));
    ASSERT_EQ(Get("key"), "other " + std::to_string(i));
  }
  ASSERT_CODE(kOk, other->Delete("key"));
  EXPECT_CODE(kNotFound, GetStatus("key"));
}

TEST_P(Behaviour, AgreesWithAMapOverRandomOperations) {
  START();
  std::mt19937 random(7);
  std::map<std::string, std::string> map;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = "key " + std::to_string(random() % 300);
    const auto what = random() % 10;
    if (what < 5) {
      const auto found = map.find(key);
      if (found == map.end()) {
        ASSERT_CODE(kNotFound, GetStatus(key));
      } else {
        ASSERT_EQ(Get(key), found->second);
      }
    } else if (what < 8) {
      const std::string value = Pattern(random() % 900, static_cast<unsigned>(random()));
      ASSERT_CODE(kOk, Put(key, value));
      map[key] = value;
    } else {
      const bool there = map.erase(key) == 1;
      ASSERT_TRUE(HasCode(there ? absl::StatusCode::kOk : absl::StatusCode::kNotFound, Delete(key)));
    }
  }
  EXPECT_EQ(store().Read(Metric::kKeys), map.size());
}

// The smallest store has 4096 main buckets: with this many keys, many hold several and some overflow. With
// these few that are read over verbs, where all is slow, fingerprints and buckets are still shared.
TEST_P(Behaviour, KeysThatShareBucketsAreToldApart) {
  START({.memory_size = kMinMemorySize});
  const int most = GetParam() == DeploymentKind::kVerbs ? 1500 : 20000;
  int count = 0;
  while (count < most && Put("crowd " + std::to_string(count), std::to_string(count)).ok()) ++count;
  EXPECT_GT(count, 1000);
  for (int i = 0; i < count; ++i) ASSERT_EQ(Get("crowd " + std::to_string(i)), std::to_string(i));
  for (int i = count; i < count + 500; ++i) ASSERT_CODE(kNotFound, GetStatus("crowd " + std::to_string(i)));
}

TEST_P(Behaviour, AFullStoreRejectsWritesAndServesOn) {
  START({.memory_size = kMinMemorySize});
  const std::string value = Pattern(100000, 1);
  int count = 0;
  absl::Status status;
  while ((status = Put("big " + std::to_string(count), value)).ok()) ASSERT_LT(++count, 200);
  EXPECT_CODE(kResourceExhausted, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("memory"));
  EXPECT_CODE(kResourceExhausted, Put("big 0", value));
  for (int i = 0; i < count; ++i) ASSERT_EQ(Get("big " + std::to_string(i)), value);
  EXPECT_CODE(kNotFound, GetStatus("big " + std::to_string(count)));
  EXPECT_CODE(kOk, Delete("big 0"));
  EXPECT_CODE(kNotFound, GetStatus("big 0"));
}

// The memory of what is overwritten comes back, on every way to run the store.
TEST_P(Behaviour, OverwritesOfManyTimesTheMemoryGoOn) {
  START({.memory_size = kMinMemorySize});
  const std::string value = Pattern(100000, 1);
  for (int i = 0; i < 400; ++i) {
    ASSERT_CODE(kOk, Put("key " + std::to_string(i % 50), value + std::to_string(i)));
  }
  for (int i = 350; i < 400; ++i) {
    ASSERT_EQ(Get("key " + std::to_string(i % 50)), value + std::to_string(i));
  }
}

TEST_P(Behaviour, LoggedWritesSurviveARestart) {
  START({.durability = Durability::kLogged});
  ASSERT_CODE(kOk, Put("kept", "value"));
  ASSERT_CODE(kOk, Put("overwritten", "old"));
  ASSERT_CODE(kOk, Put("overwritten", "new"));
  ASSERT_CODE(kOk, Put("deleted", "value"));
  ASSERT_CODE(kOk, Delete("deleted"));
  ASSERT_CODE(kOk, Put("empty", ""));
  const std::uint64_t version = store().Read(Metric::kLastVersion);
  Restart();
  EXPECT_EQ(Get("kept"), "value");
  EXPECT_EQ(Get("overwritten"), "new");
  EXPECT_CODE(kNotFound, GetStatus("deleted"));
  EXPECT_EQ(Get("empty"), "");
  EXPECT_EQ(store().Read(Metric::kKeys), 3u);
  ASSERT_CODE(kOk, Put("kept", "again"));
  EXPECT_GT(store().Read(Metric::kLastVersion), version);
  Restart();
  EXPECT_EQ(Get("kept"), "again");
}

TEST_P(Behaviour, MemoryWritesDoNotSurviveARestart) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  Restart();
  EXPECT_CODE(kNotFound, GetStatus("key"));
}

}  // namespace
}  // namespace remora
