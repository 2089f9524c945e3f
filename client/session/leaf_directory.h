// A client's knowledge of where the leaves of the ordered index are.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
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
    // The leaf behind it, as far as the directory knows; 0: it knows of none.
    std::string_view next_low{};
    std::uint64_t next_place = 0;
  };

  /// Returns the leaf that may have the key: the last one whose low fence is not greater.
  std::optional<Hint> Of(std::string_view key) const { return Before(places_.upper_bound(Fence(key))); }
  /// Returns the leaf that may have the greatest key below `end`; an empty end is behind all keys.
  std::optional<Hint> Below(std::string_view end) const {
    return Before(end.empty() ? places_.end() : places_.lower_bound(Fence(end)));
  }
  void Learn(std::string_view low, std::uint64_t place) {
    const auto at = places_.lower_bound(Fence(low));
    if (at != places_.end() && at->first.bytes == low) {
      at->second = place;
      return;
    }
    // A neighbour gives way.
    if (places_.size() >= kMost) places_.erase(at == places_.end() ? places_.begin() : at);
    places_.emplace(low, place);
  }
  void Forget(std::string_view low) {
    if (const auto at = places_.find(Fence(low)); at != places_.end()) places_.erase(at);
  }
  void Clear() { places_.clear(); }
  std::size_t size() const { return places_.size(); }

 private:
  // The first bytes of a key, as numbers of the same order. Most searches compare nothing else.
  struct Head {
    explicit Head(std::string_view key) {
      static_assert(std::endian::native == std::endian::little);
      key.copy(reinterpret_cast<char*>(words.data()), sizeof(words));
      for (std::uint64_t& word : words) word = __builtin_bswap64(word);
    }
    std::array<std::uint64_t, 2> words{};
  };
  struct Fence {
    explicit Fence(std::string_view key) : head(key), bytes(key) {}
    Head head;
    std::string_view bytes;
  };
  struct OwnFence {
    explicit OwnFence(std::string_view key) : head(key), bytes(key) {}
    Head head;
    std::string bytes;
  };
  struct IsLess {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      if (a.head.words != b.head.words) return a.head.words < b.head.words;
      return std::string_view(a.bytes) < std::string_view(b.bytes);
    }
  };
  using Places = std::map<OwnFence, std::uint64_t, IsLess>;

  std::optional<Hint> Before(Places::const_iterator behind) const {
    if (behind == places_.begin()) return std::nullopt;
    const auto& [low, place] = *std::prev(behind);
    if (behind == places_.end()) return Hint{.low = low.bytes, .place = place};
    return Hint{
        .low = low.bytes, .place = place, .next_low = behind->first.bytes, .next_place = behind->second};
  }

  Places places_;
};

}  // namespace remora
