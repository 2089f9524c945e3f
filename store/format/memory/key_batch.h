// A list of keys in one piece of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
    return {bytes_.data() + begin, ends_[i] - begin};
  }
  void clear() { ends_.clear(); }
  void Append(std::string_view key) {
    char* const to = Extend(key.size());
    CopyShort(to, key.data(), key.size());
  }
  /// Removes the last key. REQUIRES: there is one.
  void RemoveLast() { ends_.pop_back(); }
  /// Appends the first `shared` bytes of the last key, and `suffix`. Returns that key, valid until the batch
  /// changes. REQUIRES: the last key has so many.
  std::string_view AppendSharing(std::size_t shared, std::string_view suffix) {
    const std::size_t size = shared + suffix.size();
    const std::size_t begin = ends_.size() < 2 ? 0 : ends_[ends_.size() - 2];
    char* const to = Extend(size);
    CopyShort(to, bytes_.data() + begin, shared);
    CopyShort(to + shared, suffix.data(), suffix.size());
    return {to, size};
  }
  /// Returns how many keys are less than `bound`. REQUIRES: they ascend.
  std::size_t CountBelow(std::string_view bound) const {
    std::size_t begin = 0;
    for (std::size_t end = size(); begin < end;) {
      const std::size_t middle = begin + (end - begin) / 2;
      (*this)[middle] < bound ? begin = middle + 1 : end = middle;
    }
    return begin;
  }

 private:
  // Sizes that most keys have take no call.
  static void CopyShort(char* to, const char* from, std::size_t size) {
    const auto ends = [&](auto part) {
      auto last = part;
      std::memcpy(&part, from, sizeof(part));
      std::memcpy(&last, from + size - sizeof(part), sizeof(part));
      std::memcpy(to, &part, sizeof(part));
      std::memcpy(to + size - sizeof(part), &last, sizeof(part));
    };
    struct Sixteen {
      std::uint64_t words[2];
    };
    if (size - 8 <= 8) {
      ends(std::uint64_t{});
    } else if (size - 17 < 16) {
      ends(Sixteen{});
    } else if (size > 0) {
      std::memcpy(to, from, size);
    }
  }
  /// Appends a key of this size, and returns its bytes, which are to be written.
  char* Extend(std::size_t size) {
    const std::size_t begin = ends_.empty() ? 0 : ends_.back();
    if (bytes_.size() - begin < size) bytes_.resize(std::max(begin + size, 2 * bytes_.size()));
    ends_.push_back(static_cast<std::uint32_t>(begin + size));
    return bytes_.data() + begin;
  }

  std::string bytes_;  // those of the keys, and others behind them, which are of no meaning
  std::vector<std::uint32_t> ends_;
};

}  // namespace remora
