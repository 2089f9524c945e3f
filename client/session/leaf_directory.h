// A client's knowledge of where the leaves of the ordered index are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace remora {

/// Places of leaves by their low fences. All of it are hints: a leaf says itself which keys it has.
///
/// Thread safety: none.
class LeafDirectory {
 public:
  /// Most leaves that it knows. With keys of some 20 bytes, that is about 10 MB, for 6 million keys.
  static constexpr std::size_t kMost = std::size_t{1} << 16;

  struct Hint {
    std::string_view low;  // valid until the directory changes
    std::uint64_t place = 0;
  };

  /// Returns the leaf that may have the key: the last one whose low fence is not greater.
  std::optional<Hint> Of(std::string_view key) const { return Before(places_.upper_bound(key)); }
  /// Returns the leaf that may have the greatest key below `end`; an empty end is behind all keys.
  std::optional<Hint> Below(std::string_view end) const {
    return Before(end.empty() ? places_.end() : places_.lower_bound(end));
  }
  void Learn(std::string_view low, std::uint64_t place) {
    const auto at = places_.lower_bound(low);
    if (at != places_.end() && at->first == low) {
      at->second = place;
      return;
    }
    // A neighbour gives way.
    if (places_.size() >= kMost) places_.erase(at == places_.end() ? places_.begin() : at);
    places_.emplace(low, place);
  }
  void Forget(std::string_view low) {
    if (const auto at = places_.find(low); at != places_.end()) places_.erase(at);
  }
  void Clear() { places_.clear(); }
  std::size_t size() const { return places_.size(); }

 private:
  using Places = std::map<std::string, std::uint64_t, std::less<>>;

  std::optional<Hint> Before(Places::const_iterator behind) const {
    if (behind == places_.begin()) return std::nullopt;
    const auto& [low, place] = *std::prev(behind);
    return Hint{low, place};
  }

  Places places_;
};

}  // namespace remora
