// The check of an ordered set's invariants, for tests.
#include <algorithm>
#include <string>

#include "store/ordered/ordered_keys.h"

namespace remora {

struct OrderedKeys::Seen {
  std::uint64_t keys = 0;
  std::size_t memory = 0;
  bool end_of = false;  // the leaf that O6 is about
  const OrderedLeaf* last = nullptr;
};

std::string OrderedKeys::FindFault() const {
  Seen seen;
  std::string fault = FindFaultUnder(root_, height_, "", nullptr, &seen);
  if (!fault.empty()) return fault;
  if (height_ > 1 && root_.children.size() < 2) return "O4: the root has one child";
  if (seen.keys != size_) return "O2: the number of all keys differs";
  if (end_of_ != nullptr && !seen.end_of) return "O6: the leaf is gone";
  if (seen.last != nullptr && seen.last->next() != nullptr) return "O7: a leaf behind the last one";
  if (!changed_.empty()) return "O8: a leaf is not published";
  return seen.memory != memory_bytes_ ? "O5: the memory differs" : "";
}

std::string OrderedKeys::FindFaultUnder(const Inner& inner, int level, const std::string& low,
                                        const std::string* end, Seen* seen) const {
  seen->memory += MemoryOf(inner);
  const std::vector<Child>& children = inner.children;
  if (children.size() > shape_.fanout || (children.empty() && &inner != &root_)) return "O4: an inner node";
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Child& child = children[i];
    const std::string& first = i == 0 ? low : child.low;
    if (i > 1 && child.low <= children[i - 1].low) return "O1: a separator";
    const std::string* const next = i + 1 < children.size() ? &children[i + 1].low : end;
    if (level > 1) {
      const std::uint64_t before = seen->keys;
      std::string fault = FindFaultUnder(*child.inner, level - 1, first, next, seen);
      if (!fault.empty()) return fault;
      if (seen->keys - before != child.keys) return "O2: a number of keys";
      const bool is_few =
          i > 0 && child.inner->children.size() + children[i - 1].inner->children.size() <= shape_.fanout / 2;
      if (is_few) return "O4: two inner nodes are small";
      continue;
    }
    const OrderedLeaf& leaf = *child.leaf;
    std::string fault = leaf.FindFault();
    if (!fault.empty()) return fault;
    KeyBatch keys;
    leaf.Collect({}, {}, ~std::size_t{0}, &keys);
    if (keys.size() != child.keys) return "O2: a number of keys";
    if (keys.empty() || (leaf.capacity() != capacity() && keys.size() > 1)) return "O3: a leaf";
    if (keys[0] < first || (next != nullptr && keys[keys.size() - 1] >= *next)) return "O1: a key";
    if (i > 0 && leaf.used() + children[i - 1].leaf->used() <= capacity() / 2) return "O4: two leaves";
    if (&leaf == end_of_ && keys[keys.size() - 1] != end_) return "O6: the last key";
    seen->end_of = seen->end_of || &leaf == end_of_;
    seen->keys += keys.size();
    if (leaf.previous() != seen->last || (seen->last != nullptr && seen->last->next() != &leaf))
      return "O7: the list of leaves";
    if (leaf.low() != first) return "O7: a fence";
    seen->last = &leaf;
    seen->memory += leaf.memory();
  }
  return "";
}

}  // namespace remora
