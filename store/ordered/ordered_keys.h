// An ordered set of keys: a B+ tree, whose leaves have the keys (store/ordered/ordered_leaf.h).
//
// The tree has keys and nothing else. A record moves with each put of its key, and when it is cleaned. If the
// tree knew where records are, each of these would change a leaf. So an overwrite does not touch the tree; a
// scan takes keys from it, and finds their records through the hash index.
//
//   O1  The keys under a child are not less than its `low`, and less than that of the next child. The first
//       child has the bounds of its parent, whatever its `low` is.
//   O2  A child's `keys` is the number of keys under it.
//   O3  A leaf has one key at least. It has the capacity of the shape, or one key that is larger.
//   O4  Two neighbouring leaves of one parent have entries of more than half a leaf together. Two
//       neighbouring inner nodes have more than half as many children as one may have. An inner node has one
//       at least.
//   O5  memory_bytes() is the memory of all nodes.
//   O6  If end_of_ names a leaf, that leaf is in the tree, and end_ is its last key.
//   O7  The leaves are a list in the order of their keys. The low fence of the first is empty. A search for
//       any key from the low fence of a leaf on, and less than that of the next one, ends in that leaf.
//   O8  When a change ends, each leaf is published that has other keys, fences or neighbours than before. So
//       B4 of leaf_block.h holds. A leaf that is gone is dead.
//
// O4 bounds the memory of a key. An insert into a full leaf first shares the entries with a neighbour. If
// both are nearly full, it makes three leaves of two. So random inserts leave leaves three quarters full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/ordered/ordered_leaf.h"

namespace remora {

/// A set of keys in the order of their bytes.
///
/// The class has more than 25 methods, because inserts, erases and reads descend the same nodes.
///
/// Thread safety: none.
class OrderedKeys {
 public:
  struct Shape {
    std::size_t leaf_capacity = kLeafCapacity;  // bytes of entries
    std::size_t fanout = 64;                    // children of an inner node, at most; 4 or more
  };

  OrderedKeys() : OrderedKeys(Shape{}) {}
  /// `blocks`: where clients READ the leaves; null: they do not. It outlives the set.
  explicit OrderedKeys(const Shape& shape, LeafBlocks* blocks = nullptr);
  ~OrderedKeys();
  OrderedKeys(const OrderedKeys&) = delete;
  OrderedKeys& operator=(const OrderedKeys&) = delete;

  /// Returns false if the key is there already.
  bool Insert(std::string_view key);
  /// Returns false if the key is not there.
  bool Erase(std::string_view key);
  bool Has(std::string_view key) const;

  /// Returns how many keys are in [begin, end). An empty end is behind all keys. Cost: two searches.
  std::uint64_t Count(std::string_view begin, std::string_view end) const;
  /// Replaces `keys` by the first `most` keys of [begin, end), in ascending order, or by the last ones, in
  /// descending order (Last).
  void First(std::string_view begin, std::string_view end, std::size_t most, KeyBatch* keys) const;
  void Last(std::string_view begin, std::string_view end, std::size_t most, KeyBatch* keys) const;

  /// Returns the leaf that has the key, if anything has it, or the leaf behind which the keys below `end`
  /// end; an empty end is behind all keys. Null: the set is empty.
  const OrderedLeaf* LeafOf(std::string_view key) const;
  const OrderedLeaf* LeafBelow(std::string_view end) const;

  std::uint64_t size() const { return size_; }
  /// Returns the bytes of memory of all nodes, without what the allocator adds.
  std::size_t memory_bytes() const { return memory_bytes_; }

  /// Returns the invariant (O1 to O8, L1 to L4) that does not hold; empty: all hold. Cost: a look at each
  /// key.
  std::string FindFault() const;

 private:
  struct Inner;
  // A child is a leaf if its parent is of level 1, or else an inner node.
  struct Child {
    std::string low{};
    std::uint64_t keys = 0;
    OrderedLeaf::Ptr leaf{};
    std::unique_ptr<Inner> inner{};
  };
  struct Inner {
    std::vector<Child> children{};
  };
  class Resize;

  static std::size_t ChildFor(const Inner& inner, std::string_view key);
  static std::size_t MemoryOf(const Inner& inner);
  static std::uint64_t KeysOf(const Inner& inner);
  std::size_t capacity() const { return shape_.leaf_capacity; }

  bool InsertUnder(Inner& inner, int level, std::string_view key);
  OrderedLeaf::Inserted InsertInto(OrderedLeaf& leaf, std::string_view key);
  /// Inserts a key for which leaf `i` has no space.
  void Spread(Inner& inner, std::size_t i, std::string_view key);
  /// Replaces the children [begin, end) by leaves with `keys`, about `count`, and returns their number.
  std::size_t Replace(Inner& inner, std::size_t begin, std::size_t end, const KeyBatch& keys,
                      std::size_t count);
  void SplitInner(Inner& parent, std::size_t i);
  void GrowRoot();
  void ShrinkRoot();

  bool EraseUnder(Inner& inner, int level, std::string_view key);
  /// Makes O3 and O4 hold again after child `i` has become smaller.
  void Join(Inner& parent, std::size_t i, int level);
  bool JoinPair(Inner& parent, std::size_t i, int level);
  static void Remove(Inner& parent, std::size_t i);

  /// Notes that a leaf is to be published (O8).
  void Change(OrderedLeaf* leaf);
  /// Takes a leaf that ends out of the list.
  void Drop(OrderedLeaf& leaf);
  /// Gives the range of a leaf that was removed to the one in which searches end now (O7).
  void GiveRange(const std::string& low);
  void Publish();

  std::uint64_t CountBelow(std::string_view bound) const;
  bool FirstUnder(const Inner& inner, int level, std::string_view begin, std::string_view end,
                  std::size_t most, KeyBatch* keys) const;
  void LastUnder(const Inner& inner, int level, std::string_view begin, std::string_view end,
                 std::size_t most, KeyBatch* keys) const;

  struct Seen;
  std::string FindFaultUnder(const Inner& inner, int level, const std::string& low, const std::string* end,
                             Seen* seen) const;

  const Shape shape_;
  LeafBlocks* const blocks_;
  Inner root_;
  int height_ = 1;  // levels of inner nodes
  std::uint64_t size_ = 0;
  std::size_t memory_bytes_ = 0;
  KeyBatch batch_;  // keys of leaves that are made anew; a member so that its memory is reused
  // The leaf at whose end the last key was inserted there, and that key (O6). Null: none is known. Keys in
  // ascending order, as a load brings them, are appended without a search in the leaf.
  const OrderedLeaf* end_of_ = nullptr;
  std::string end_;
  std::vector<OrderedLeaf*> changed_;       // leaves to publish
  std::optional<std::string> removed_low_;  // the low fence of a leaf that this change has removed
};

}  // namespace remora
