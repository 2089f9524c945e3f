// The leaf of an ordered set of keys: some tens of keys in one flat block of bytes, as
// store/format/memory/leaf_block.h has them.
//
// A leaf of the usual capacity is in a block of the region, where clients READ it, if there is such a block.
// Then Publish makes what it has now its current image (B2). Any other is in private memory, as is one of a
// single key that is larger than a block.
//
//   L1  The keys ascend, and no key is there twice.
//   L2  `shared` is as large as it can be; that of the first key is 0. A search relies on it.
//   L3  `used` is the size of all entries, and `count` their number.
//   L4  A published leaf in a block is read from there as it is: its keys, its low fence, and that of the
//       next leaf as the high one. If they do not fit into the block, it is dead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/format/memory/key_batch.h"
#include "store/ordered/leaf_blocks.h"

namespace remora {

/// One leaf. Its capacity is fixed when it is made.
///
/// The class has more than 25 methods, because it is an element of the list of leaves, too.
///
/// Thread safety: none.
class OrderedLeaf {
 public:
  using Ptr = std::unique_ptr<OrderedLeaf>;

  /// Makes an empty leaf with space for `capacity` bytes of entries. Null: it is in private memory. `blocks`
  /// outlives it.
  OrderedLeaf(std::size_t capacity, LeafBlocks* blocks);
  ~OrderedLeaf();
  /// Returns the bytes of the entry of a key behind `previous`; nullopt: the key is the first.
  static std::size_t EntrySize(std::optional<std::string_view> previous, std::string_view key);

  OrderedLeaf(const OrderedLeaf&) = delete;
  OrderedLeaf& operator=(const OrderedLeaf&) = delete;

  std::size_t capacity() const { return capacity_; }
  std::size_t used() const { return used_; }
  std::size_t count() const { return count_; }
  /// Returns the bytes of memory that the leaf takes, without those of a long fence.
  std::size_t memory() const {
    return sizeof(OrderedLeaf) + (block_ == nullptr ? capacity() : kLeafBlockSize);
  }

  bool Has(std::string_view key) const;
  /// Returns how many keys are less than `bound`.
  std::size_t CountBelow(std::string_view bound) const;

  enum class Inserted : std::uint8_t {
    kDone = 1,
    kThere = 2,  // the leaf has the key already
    kFull = 3,   // there is no space for it
    kLast = 4,   // done, and the key is behind all others
  };
  Inserted Insert(std::string_view key);
  /// Inserts a key behind all others, of which `previous` is the last. REQUIRES: it is greater, and there is
  /// space.
  void Append(std::optional<std::string_view> previous, std::string_view key);
  /// Returns false if the leaf does not have the key.
  bool Erase(std::string_view key);

  /// Appends the keys from `begin` on, but less than `end`, to `keys`, until that has `most`. An empty end is
  /// behind all keys. Returns false if it met a key beyond the end.
  bool Collect(std::string_view begin, std::string_view end, std::size_t most, KeyBatch* keys) const;

  // --- The list of leaves, and what clients READ

  /// Returns the low fence: the least key that the leaf may have.
  const std::string& low() const { return low_; }
  void set_low(std::string_view low) { low_ = low; }
  OrderedLeaf* previous() const { return previous_; }
  OrderedLeaf* next() const { return next_; }
  /// Puts the leaf between two neighbours; null: it is the first, or the last one.
  void Link(OrderedLeaf* previous, OrderedLeaf* next);
  /// Takes the leaf out of the list.
  void Unlink();

  /// Moves a leaf out of private memory into a block, if there is one and the leaf has the usual capacity.
  void MoveToBlock();
  /// Makes what the leaf has now its current image.
  void Publish();
  /// Returns the offset of its block. 0: it has none.
  std::uint64_t place() const { return block_ == nullptr ? 0 : blocks_->OffsetOf(block_); }
  /// Returns whether clients can READ the published leaf.
  bool is_readable() const { return is_readable_; }
  /// Returns whether `Publish` has to be called; set by the owner.
  bool is_changed() const { return is_changed_; }
  void set_changed(bool is_changed) { is_changed_ = is_changed; }

  /// Returns the invariant (L1 to L4) that does not hold; empty: all hold. REQUIRES: the leaf is published.
  std::string FindFault() const;

 private:
  struct Entry {
    std::size_t shared = 0;
    std::string_view suffix;
    std::size_t end = 0;  // offset of the next entry
  };
  // Place of a key, or where it would be.
  struct Spot {
    std::size_t offset = 0;  // of the first entry that is not less than the key
    std::size_t number = 0;  // number of that entry
    std::size_t before = 0;  // bytes that the key shares with the key before it
    std::size_t behind = 0;  // bytes that the key shares with the key of that entry
    bool is_there = false;   // that entry is the key's
  };

  char* bytes() { return bytes_; }
  const char* bytes() const { return bytes_; }
  Entry At(std::size_t offset) const;
  Spot Find(std::string_view key) const;
  std::string FindImageFault() const;

  LeafBlocks* const blocks_;
  std::byte* block_ = nullptr;   // null: the entries are in own_
  std::unique_ptr<char[]> own_;  // null: they are in block_
  char* bytes_;                  // of the entries
  std::string low_;
  OrderedLeaf* previous_ = nullptr;
  OrderedLeaf* next_ = nullptr;
  std::uint32_t capacity_;
  std::uint32_t used_ = 0;
  std::uint32_t count_ = 0;
  bool is_changed_ = false;
  bool is_readable_ = false;
};

}  // namespace remora
