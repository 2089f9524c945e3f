// The leaf of an ordered set of keys: some tens of keys in one flat block of bytes.
//
//   header   capacity 4, used 4, count 4, reserved 4
//   entries  for each key, in ascending order:
//              shared   bytes that the key has in common with the key before it; 1 or 2 bytes
//              size     bytes that follow; 1 or 2 bytes
//              suffix   the key without its first `shared` bytes
//
// A leaf has no pointers, so its bytes mean the same at another address and to another process. Its header
// can take a checksum, fences and a link.
//
//   L1  The keys ascend, and no key is there twice.
//   L2  `shared` is as large as it can be; that of the first key is 0. A search relies on it.
//   L3  `used` is the size of all entries, and `count` their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace remora {

/// Keys one behind the other, without an allocation for each.
class KeyBatch {
 public:
  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  /// Returns a key, valid until the batch changes.
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  void clear() {
    bytes_.clear();
    ends_.clear();
  }
  void Append(std::string_view key) {
    bytes_ += key;
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  /// Removes the last key. REQUIRES: there is one.
  void RemoveLast() {
    ends_.pop_back();
    bytes_.resize(ends_.empty() ? 0 : ends_.back());
  }
  /// Appends the first `shared` bytes of the last key, and `suffix`. REQUIRES: the last key has so many.
  void AppendSharing(std::size_t shared, std::string_view suffix) {
    if (shared > 0) bytes_.append(bytes_, ends_.size() < 2 ? 0 : ends_[ends_.size() - 2], shared);
    Append(suffix);
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;
};

/// One leaf. Its capacity is fixed when it is made.
///
/// Thread safety: none.
class OrderedLeaf {
 public:
  struct Free {
    void operator()(OrderedLeaf* leaf) const;
  };
  using Ptr = std::unique_ptr<OrderedLeaf, Free>;

  /// Makes an empty leaf with space for `capacity` bytes of entries.
  static Ptr Make(std::size_t capacity);
  /// Returns the bytes of the entry of a key behind `previous`; nullopt: the key is the first.
  static std::size_t EntrySize(std::optional<std::string_view> previous, std::string_view key);

  OrderedLeaf(const OrderedLeaf&) = delete;
  OrderedLeaf& operator=(const OrderedLeaf&) = delete;

  std::size_t capacity() const { return capacity_; }
  std::size_t used() const { return used_; }
  std::size_t count() const { return count_; }
  /// Returns the bytes of memory that a leaf with this capacity takes.
  static std::size_t MemoryOf(std::size_t capacity) { return sizeof(OrderedLeaf) + capacity; }

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

  /// Returns the invariant (L1 to L3) that does not hold; empty: all hold.
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

  explicit OrderedLeaf(std::size_t capacity) : capacity_(static_cast<std::uint32_t>(capacity)) {}
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
  Entry At(std::size_t offset) const;
  Spot Find(std::string_view key) const;

  std::uint32_t capacity_;
  std::uint32_t used_ = 0;
  std::uint32_t count_ = 0;
  [[maybe_unused]] std::uint32_t reserved_ = 0;
};

}  // namespace remora
