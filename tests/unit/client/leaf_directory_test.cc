#include "client/session/leaf_directory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>

namespace remora {
namespace {

// Stems of any length, among them those that are longer than a search compares at first, and zeros, which are
// the bytes behind the end of a short key there.
std::string AnyKey(std::mt19937& random) {
  const char bytes[] = {'\0', '\1', 'a', '\xff'};
  std::string key(random() % 20, random() % 3 == 0 ? '\0' : 's');
  for (std::size_t i = random() % 4; i > 0; --i) key.push_back(bytes[random() % sizeof(bytes)]);
  return key;
}

TEST(LeafDirectoryTest, FindsTheLeafBeforeAKeyAndTheOneBehindThat) {
  std::mt19937 random(11);
  LeafDirectory leaves;
  std::map<std::string, std::uint64_t> expected;
  const auto check = [&](const std::optional<LeafDirectory::Hint>& hint, auto behind) {
    ASSERT_EQ(hint.has_value(), behind != expected.begin());
    if (!hint) return;
    EXPECT_EQ(hint->low, std::prev(behind)->first);
    EXPECT_EQ(hint->place, std::prev(behind)->second);
    EXPECT_EQ(hint->next_place, behind == expected.end() ? 0 : behind->second);
    EXPECT_EQ(hint->next_low, behind == expected.end() ? "" : behind->first);
  };
  for (int i = 0; i < 5000; ++i) {
    const std::string key = AnyKey(random);
    if (random() % 3 == 0) {
      leaves.Forget(key);
      expected.erase(key);
    } else {
      const std::uint64_t place = 1 + random();
      leaves.Learn(key, place);
      expected[key] = place;
    }
    ASSERT_EQ(leaves.size(), expected.size());
    const std::string sought = AnyKey(random);
    check(leaves.Of(sought), expected.upper_bound(sought));
    check(leaves.Below(sought), sought.empty() ? expected.end() : expected.lower_bound(sought));
  }
}

TEST(LeafDirectoryTest, ANeighbourGivesWayOnceItIsFull) {
  LeafDirectory leaves;
  for (std::size_t i = 0; i <= LeafDirectory::kMost; ++i) leaves.Learn("key " + std::to_string(i), i + 1);
  EXPECT_EQ(leaves.size(), LeafDirectory::kMost);
}

}  // namespace
}  // namespace remora
