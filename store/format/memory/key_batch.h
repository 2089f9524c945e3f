// A list of keys in one piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
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

}  // namespace remora
