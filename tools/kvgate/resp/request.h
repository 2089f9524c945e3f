// One command of a client: its name and arguments, as bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace remora::kvgate {

/// Arguments of one command, of which the first is its name. It owns their bytes.
///
/// Thread safety: none.
class Request {
 public:
  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  /// Returns an argument; valid until the request changes. REQUIRES: index < size().
  std::string_view operator[](std::size_t index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }
  /// Returns the size of all arguments together, in bytes.
  std::size_t bytes() const { return bytes_.size(); }
  /// Returns the bytes of memory for arguments, used or not.
  std::size_t memory() const { return bytes_.capacity() + ends_.capacity() * sizeof(std::size_t); }

  /// Adds bytes to the argument that EndArgument will end.
  void Append(std::string_view bytes) { bytes_ += bytes; }
  void EndArgument() { ends_.push_back(bytes_.size()); }
  void Clear() {
    bytes_.clear();
    ends_.clear();
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

}  // namespace remora::kvgate
