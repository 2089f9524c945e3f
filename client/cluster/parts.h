// The parts of a call with several keys, one for each shard, and their way back to the caller's order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cluster/side_by_side.h"
#include "client/cluster/topology.h"
#include "store/base/results.h"
#include "store/format/cluster/slot.h"
#include "store/format/types/write_options.h"

namespace remora {

/// The elements of a call that one shard has, in the caller's order.
template <typename Element, typename Result>
struct CallPart {
  std::vector<std::size_t> places;  // in the caller's list
  std::vector<Element> elements;
  std::vector<Result> results;  // of the elements; their memory is used again

  void Clear() {
    places.clear();
    elements.clear();
  }
};

/// A call's elements, divided among the shards. Reused by later calls, so that they allocate nothing.
///
/// Thread safety: none.
template <typename Element, typename Result>
class CallParts {
 public:
  using Part = CallPart<Element, Result>;

  explicit CallParts(std::size_t shards) : parts_(shards) {}

  /// Returns the shard that all elements have, or nothing. REQUIRES: there is one at least.
  template <typename KeyOf>
  static std::optional<std::size_t> OnlyShard(const Topology& topology, std::span<const Element> elements,
                                              const KeyOf& key_of) {
    const std::size_t shard = topology.ShardOfSlot(SlotOf(key_of(elements.front())));
    for (const Element& element : elements.subspan(1)) {
      if (topology.ShardOfSlot(SlotOf(key_of(element))) != shard) return std::nullopt;
    }
    return shard;
  }

  /// Divides all elements. `key_of` returns the key of one.
  template <typename KeyOf>
  void Divide(const Topology& topology, std::span<const Element> elements, const KeyOf& key_of) {
    DivideSome(
        topology, elements, elements.size(), [](std::size_t i) { return i; }, key_of);
  }
  /// Divides so many elements; `place_of` returns the place of the first one, of the second one and so on.
  template <typename PlaceOf, typename KeyOf>
  void DivideSome(const Topology& topology, std::span<const Element> elements, std::size_t count,
                  const PlaceOf& place_of, const KeyOf& key_of) {
    for (const std::size_t shard : used_) parts_[shard].Clear();
    used_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = place_of(i);
      const std::size_t shard = topology.ShardOfSlot(SlotOf(key_of(elements[place])));
      Part& part = parts_[shard];
      if (part.places.empty()) used_.push_back(shard);
      part.places.push_back(place);
      part.elements.push_back(elements[place]);
    }
    for (const std::size_t shard : used_) {
      Part& part = parts_[shard];
      if (part.results.size() < part.elements.size()) part.results.resize(part.elements.size());
    }
  }

  /// Returns the shards that have an element, in the order of their first ones.
  std::span<const std::size_t> used() const { return used_; }
  Part& operator[](std::size_t shard) { return parts_[shard]; }
  std::span<Result> ResultsOf(std::size_t shard) {
    return std::span(parts_[shard].results).first(parts_[shard].elements.size());
  }

  /// Hands the results to the caller, and keeps the memory of the caller's values for the next call.
  void Return(std::span<Result> results) {
    for (const std::size_t shard : used_) {
      Part& part = parts_[shard];
      for (std::size_t i = 0; i < part.places.size(); ++i) Move(part.results[i], results[part.places[i]]);
    }
  }

 private:
  static void Move(GetResult& from, GetResult& to) {
    to.status = std::move(from.status);
    to.value.swap(from.value);
    to.version = from.version;
  }
  static void Move(PutResult& from, PutResult& to) { to = std::move(from); }

  std::vector<Part> parts_;
  std::vector<std::size_t> used_;
};

}  // namespace remora
