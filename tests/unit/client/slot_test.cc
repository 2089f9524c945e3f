// The slot of a key: part of the format, so its values are fixed.
#include "store/format/cluster/slot.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

namespace remora {
namespace {

TEST(Slot, IsFixedForEachKey) {
  EXPECT_EQ(SlotOf("a"), 3615u);
  EXPECT_EQ(SlotOf("key"), 9699u);
  EXPECT_EQ(SlotOf(std::string_view("\0", 1)), 11483u);
  EXPECT_EQ(SlotOf("42"), 8593u);
  EXPECT_EQ(SlotOf("user:{42}:name"), 8593u);
  EXPECT_EQ(SlotOf("0123456789abcdef0123456789abcdef"), 85u);
  EXPECT_EQ(SlotOf(std::string(300, 'x')), 13652u);
}

TEST(Slot, TagIsBetweenTheFirstBraceAndTheNextClosingOne) {
  EXPECT_EQ(SlotTag("user:{42}:name"), "42");
  EXPECT_EQ(SlotTag("{42}"), "42");
  EXPECT_EQ(SlotTag("{a}{b}"), "a");
  EXPECT_EQ(SlotTag("}{a}"), "a");
  EXPECT_EQ(SlotTag("{{a}}"), "{a");
}

TEST(Slot, KeyWithoutTagIsHashedWhole) {
  for (const std::string key : {"", "a", "{", "}", "{}", "{}a", "a{b", "a}b", "}{", "{}{a}"}) {
    EXPECT_EQ(SlotTag(key), key);
  }
}

TEST(Slot, TagIsFoundWhereverItBegins) {
  for (std::size_t size = 3; size <= 80; ++size) {
    for (std::size_t at = 0; at + 3 <= size; ++at) {
      std::string key(size, 'k');
      ASSERT_EQ(SlotTag(key), key);
      key[at] = '{';
      ASSERT_EQ(SlotTag(key), key);
      key[at + 2] = '}';
      ASSERT_EQ(SlotTag(key), "k") << key;
    }
  }
}

TEST(Slot, KeysWithOneTagHaveOneSlot) {
  for (int i = 0; i < 1000; ++i) {
    const std::string tag = std::to_string(i);
    EXPECT_EQ(SlotOf("a:{" + tag + "}:b"), SlotOf(tag));
    EXPECT_EQ(SlotOf("{" + tag + "}"), SlotOf(tag));
  }
}

TEST(Slot, ComesWithTheHashOfTheWholeKey) {
  for (const std::string key : {"", "a", "key", "user:{42}:name", "{42}", "{}", "0123456789abcdef{tag}"}) {
    const HashedSlot hashed = HashedSlotOf(key);
    EXPECT_EQ(hashed.slot, SlotOf(key)) << key;
    EXPECT_EQ(hashed.key_hash, HashKey(key)) << key;
  }
}

TEST(Slot, KeysFillAllSlots) {
  std::set<std::uint32_t> slots;
  for (int i = 0; i < 400'000; ++i) slots.insert(SlotOf("key" + std::to_string(i)));
  EXPECT_EQ(slots.size(), kSlots);
  EXPECT_EQ(*slots.rbegin(), kSlots - 1);
}

}  // namespace
}  // namespace remora
