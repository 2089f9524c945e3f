#include "store/ordered/ordered_keys.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "store/base/check.h"

namespace remora {
namespace {

// If two neighbours have more than so much of their space in use together, three leaves are made of them.
constexpr std::size_t kFullParts = 7;
constexpr std::size_t kParts = 8;

/// Returns the shortest string that is greater than `less`, and not greater than `key`.
std::string_view Separator(std::string_view less, std::string_view key) {
  std::size_t same = 0;
  while (same < less.size() && less[same] == key[same]) ++same;
  return key.substr(0, same + 1);
}

/// Bytes of a string outside of its object.
std::size_t HeapBytes(const std::string& text) {
  static const std::size_t kInside = std::string().capacity();
  return text.capacity() > kInside ? text.capacity() + 1 : 0;
}

}  // namespace

/// Keeps O5 while its scope changes the children of an inner node.
class OrderedKeys::Resize {
 public:
  Resize(OrderedKeys& keys, const Inner& inner) : keys_(keys), inner_(inner) {
    keys_.memory_bytes_ -= MemoryOf(inner_);
  }
  ~Resize() { keys_.memory_bytes_ += MemoryOf(inner_); }
  Resize(const Resize&) = delete;
  Resize& operator=(const Resize&) = delete;

 private:
  OrderedKeys& keys_;
  const Inner& inner_;
};

OrderedKeys::OrderedKeys(const Shape& shape, LeafBlocks* blocks) : shape_(shape), blocks_(blocks) {
  REMORA_CHECK(shape.fanout >= 4 && shape.leaf_capacity > 0);
  memory_bytes_ = MemoryOf(root_);
}

OrderedKeys::~OrderedKeys() = default;

std::size_t OrderedKeys::ChildFor(const Inner& inner, std::string_view key) {
  const auto behind = std::upper_bound(inner.children.begin() + 1, inner.children.end(), key,
                                       [](std::string_view k, const Child& child) { return k < child.low; });
  return static_cast<std::size_t>(behind - inner.children.begin()) - 1;
}

std::size_t OrderedKeys::MemoryOf(const Inner& inner) {
  std::size_t bytes = sizeof(Inner) + inner.children.capacity() * sizeof(Child);
  for (const Child& child : inner.children) bytes += HeapBytes(child.low);
  return bytes;
}

std::uint64_t OrderedKeys::KeysOf(const Inner& inner) {
  std::uint64_t keys = 0;
  for (const Child& child : inner.children) keys += child.keys;
  return keys;
}

// --- Inserting ------------------------------------------------------------------------------------------

bool OrderedKeys::Insert(std::string_view key) {
  if (!InsertUnder(root_, height_, key)) return false;
  ++size_;
  if (root_.children.size() > shape_.fanout) GrowRoot();
  ShrinkRoot();
  Publish();
  return true;
}

bool OrderedKeys::InsertUnder(Inner& inner, int level, std::string_view key) {
  if (inner.children.empty()) {  // the root of an empty tree
    batch_.clear();
    batch_.Append(key);
    Replace(inner, 0, 0, batch_, 1);
    return true;
  }
  const std::size_t i = ChildFor(inner, key);
  Child& child = inner.children[i];
  if (level > 1) {
    const std::size_t before = child.inner->children.size();
    if (!InsertUnder(*child.inner, level - 1, key)) return false;
    ++child.keys;
    const std::size_t after = child.inner->children.size();
    if (after > shape_.fanout) SplitInner(inner, i);
    if (after < before) Join(inner, i, level);  // see Spread
    return true;
  }
  switch (InsertInto(*child.leaf, key)) {
    case OrderedLeaf::Inserted::kThere:
      return false;
    case OrderedLeaf::Inserted::kDone:
    case OrderedLeaf::Inserted::kLast:
      ++child.keys;
      Change(child.leaf.get());
      return true;
    case OrderedLeaf::Inserted::kFull:
      Spread(inner, i, key);
  }
  return true;
}

OrderedLeaf::Inserted OrderedKeys::InsertInto(OrderedLeaf& leaf, std::string_view key) {
  if (end_of_ != &leaf || key <= end_) {
    const OrderedLeaf::Inserted inserted = leaf.Insert(key);
    if (inserted != OrderedLeaf::Inserted::kLast) return inserted;
    end_of_ = &leaf;
  } else {
    if (leaf.used() + OrderedLeaf::EntrySize(end_, key) > leaf.capacity())
      return OrderedLeaf::Inserted::kFull;
    leaf.Append(end_, key);
  }
  end_ = key;
  return OrderedLeaf::Inserted::kLast;
}

void OrderedKeys::Spread(Inner& inner, std::size_t i, std::string_view key) {
  std::vector<Child>& children = inner.children;
  const OrderedLeaf& full = *children[i].leaf;
  batch_.clear();
  if (i + 1 == children.size() && full.CountBelow(key) == full.count()) {
    // Keys that come in ascending order leave full leaves behind.
    KeyBatch last;
    full.Collect({}, {}, full.count(), &last);
    const std::string low(Separator(last[last.size() - 1], key));
    batch_.Append(key);
    Replace(inner, i + 1, i + 1, batch_, 1);
    const Resize resize(*this, inner);
    children[i + 1].low = low;
    children[i + 1].leaf->set_low(low);
    return;
  }
  // The neighbour with more space.
  std::size_t first = i;
  std::size_t used = full.used();
  if (children.size() > 1) {
    const bool has_left = i > 0;
    const bool has_right = i + 1 < children.size();
    const bool left = has_left && (!has_right || children[i - 1].leaf->used() < children[i + 1].leaf->used());
    first = left ? i - 1 : i;
    used += children[left ? i - 1 : i + 1].leaf->used();
  }
  const std::size_t end = std::min(first + 2, children.size());
  KeyBatch old;
  for (std::size_t j = first; j < end; ++j) children[j].leaf->Collect({}, {}, ~std::size_t{0}, &old);
  for (std::size_t j = 0, inserted = 0; j < old.size() || inserted == 0;) {
    const bool next_is_new = inserted == 0 && (j == old.size() || key < old[j]);
    batch_.Append(next_is_new ? key : old[j]);
    ++(next_is_new ? inserted : j);
  }
  const bool shares = end - first == 2 && used + key.size() <= 2 * capacity() * kFullParts / kParts;
  const std::size_t made = Replace(inner, first, end, batch_, end - first + (shares ? 0 : 1));
  // Keys of very different sizes can leave a small leaf beside another one (O4).
  for (std::size_t j = first > 0 ? first - 1 : 0; j < first + made && j + 1 < children.size();) {
    if (!JoinPair(inner, j, 1)) ++j;
  }
}

std::size_t OrderedKeys::Replace(Inner& inner, std::size_t begin, std::size_t end, const KeyBatch& keys,
                                 std::size_t count) {
  std::size_t total = 0;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    total += OrderedLeaf::EntrySize(j == 0 ? std::nullopt : std::optional(keys[j - 1]), keys[j]);
  }
  const std::size_t goal = total / count;
  end_of_ = nullptr;  // O6
  const Resize resize(*this, inner);
  std::vector<Child> made;
  for (std::size_t from = 0; from < keys.size();) {
    std::size_t used = OrderedLeaf::EntrySize(std::nullopt, keys[from]);
    std::size_t to = from + 1;
    for (; to < keys.size(); ++to) {
      const std::size_t size = OrderedLeaf::EntrySize(keys[to - 1], keys[to]);
      const bool is_last = made.size() + 1 >= count;
      if (used + size > capacity() || (!is_last && used + size / 2 > goal)) break;
      used += size;
    }
    Child& child = made.emplace_back();
    child.leaf = std::make_unique<OrderedLeaf>(std::max(capacity(), used), blocks_);
    memory_bytes_ += child.leaf->memory();
    child.keys = to - from;
    if (from > 0) child.low = Separator(keys[from - 1], keys[from]);
    for (std::size_t j = from; j < to; ++j) {
      child.leaf->Append(j == from ? std::nullopt : std::optional(keys[j - 1]), keys[j]);
    }
    from = to;
  }
  std::vector<Child>& children = inner.children;
  // The new leaves take the place of the old ones in the list, or one behind the leaf before (O7).
  OrderedLeaf* previous = begin == 0 ? nullptr : children[begin - 1].leaf.get();
  OrderedLeaf* next = previous == nullptr ? nullptr : previous->next();
  std::string low;
  if (begin < end) {
    previous = children[begin].leaf->previous();
    next = children[end - 1].leaf->next();
    low = children[begin].leaf->low();
    made.front().low = children[begin].low;
  }
  for (std::size_t j = begin; j < end; ++j) {
    memory_bytes_ -= children[j].leaf->memory();
    Drop(*children[j].leaf);
  }
  Change(previous);
  for (Child& child : made) {
    child.leaf->set_low(&child == made.data() ? low : child.low);
    child.leaf->Link(previous, next);
    Change(child.leaf.get());
    previous = child.leaf.get();
  }
  const auto at = children.erase(children.begin() + static_cast<std::ptrdiff_t>(begin),
                                 children.begin() + static_cast<std::ptrdiff_t>(end));
  children.insert(at, std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  return made.size();
}

void OrderedKeys::SplitInner(Inner& parent, std::size_t i) {
  const Resize resize(*this, parent);
  Inner& lower = *parent.children[i].inner;
  Child upper;
  upper.inner = std::make_unique<Inner>();
  memory_bytes_ += MemoryOf(*upper.inner);
  {
    const Resize resize_lower(*this, lower);
    const Resize resize_upper(*this, *upper.inner);
    const auto half = lower.children.begin() + static_cast<std::ptrdiff_t>(lower.children.size() / 2);
    upper.low = half->low;
    upper.inner->children.assign(std::make_move_iterator(half),
                                 std::make_move_iterator(lower.children.end()));
    lower.children.erase(half, lower.children.end());
    lower.children.shrink_to_fit();
  }
  upper.keys = KeysOf(*upper.inner);
  parent.children[i].keys -= upper.keys;
  parent.children.insert(parent.children.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(upper));
}

void OrderedKeys::GrowRoot() {
  {
    const Resize resize(*this, root_);
    Child child;
    child.keys = size_;
    child.inner = std::make_unique<Inner>(std::move(root_));
    memory_bytes_ += MemoryOf(*child.inner);
    root_.children.clear();
    root_.children.push_back(std::move(child));
  }
  ++height_;
  SplitInner(root_, 0);
}

// --- Erasing --------------------------------------------------------------------------------------------

bool OrderedKeys::Erase(std::string_view key) {
  if (root_.children.empty() || !EraseUnder(root_, height_, key)) return false;
  if (key == end_) end_of_ = nullptr;  // O6
  --size_;
  ShrinkRoot();
  if (removed_low_) GiveRange(*removed_low_);
  removed_low_.reset();
  Publish();
  return true;
}

void OrderedKeys::ShrinkRoot() {
  if (height_ == 1 || root_.children.size() > 1) return;
  const Resize resize(*this, root_);
  while (height_ > 1 && root_.children.size() == 1) {
    memory_bytes_ -= MemoryOf(*root_.children[0].inner);
    const std::unique_ptr<Inner> only = std::move(root_.children[0].inner);
    root_ = std::move(*only);
    --height_;
  }
  if (root_.children.empty()) height_ = 1;
}

bool OrderedKeys::EraseUnder(Inner& inner, int level, std::string_view key) {
  const std::size_t i = ChildFor(inner, key);
  Child& child = inner.children[i];
  if (!(level > 1 ? EraseUnder(*child.inner, level - 1, key) : child.leaf->Erase(key))) return false;
  --child.keys;
  if (level == 1) Change(child.leaf.get());
  Join(inner, i, level);
  return true;
}

void OrderedKeys::Join(Inner& parent, std::size_t i, int level) {
  std::vector<Child>& children = parent.children;
  if (children[i].keys == 0) {
    const Resize resize(*this, parent);
    memory_bytes_ -= level > 1 ? MemoryOf(*children[i].inner) : children[i].leaf->memory();
    if (level == 1) {
      removed_low_ = children[i].leaf->low();
      Drop(*children[i].leaf);
    }
    Remove(parent, i);
    if (i == children.size()) return;
  }
  for (;;) {
    if (i + 1 < children.size() && JoinPair(parent, i, level)) continue;
    if (i == 0 || !JoinPair(parent, i - 1, level)) return;
    --i;
  }
}

bool OrderedKeys::JoinPair(Inner& parent, std::size_t i, int level) {
  Child& left = parent.children[i];
  Child& right = parent.children[i + 1];
  if (level > 1) {
    if (left.inner->children.size() + right.inner->children.size() > shape_.fanout / 2) return false;
    const std::size_t border = left.inner->children.size();
    {
      const Resize resize(*this, parent);
      memory_bytes_ -= MemoryOf(*right.inner);
      const Resize resize_left(*this, *left.inner);
      right.inner->children[0].low = right.low;  // O1
      std::move(right.inner->children.begin(), right.inner->children.end(),
                std::back_inserter(left.inner->children));
      left.keys += right.keys;
      Remove(parent, i + 1);
    }
    Join(*left.inner, border, level - 1);  // these two children had no common parent before
    return true;
  }
  if (left.leaf->used() + right.leaf->used() > capacity() / 2) return false;
  batch_.clear();
  for (const Child* child : {&left, &right}) child->leaf->Collect({}, {}, ~std::size_t{0}, &batch_);
  Replace(parent, i, i + 2, batch_, 1);
  return true;
}

void OrderedKeys::Remove(Inner& parent, std::size_t i) {
  parent.children.erase(parent.children.begin() + static_cast<std::ptrdiff_t>(i));
}

// --- The list of leaves ---------------------------------------------------------------------------------

void OrderedKeys::Change(OrderedLeaf* leaf) {
  if (blocks_ == nullptr || leaf == nullptr || leaf->is_changed()) return;
  leaf->set_changed(true);
  changed_.push_back(leaf);
}

void OrderedKeys::Drop(OrderedLeaf& leaf) {
  leaf.Unlink();
  if (leaf.is_changed()) std::erase(changed_, &leaf);
}

void OrderedKeys::GiveRange(const std::string& low) {
  auto* const leaf = const_cast<OrderedLeaf*>(LeafOf(low));
  if (leaf == nullptr) return;
  if (leaf->low() > low) leaf->set_low(low);
  Change(leaf);
  Change(leaf->previous());
}

void OrderedKeys::Publish() {
  // Links lead to blocks, so all leaves get theirs before the first is published.
  for (OrderedLeaf* const leaf : changed_) {
    memory_bytes_ -= leaf->memory();
    leaf->MoveToBlock();
    memory_bytes_ += leaf->memory();
  }
  for (OrderedLeaf* const leaf : changed_) leaf->Publish();
  changed_.clear();
}

const OrderedLeaf* OrderedKeys::LeafOf(std::string_view key) const {
  const Inner* inner = &root_;
  if (inner->children.empty()) return nullptr;
  for (int level = height_; level > 1; --level) inner = inner->children[ChildFor(*inner, key)].inner.get();
  return inner->children[ChildFor(*inner, key)].leaf.get();
}

const OrderedLeaf* OrderedKeys::LeafBelow(std::string_view end) const {
  if (root_.children.empty()) return nullptr;
  if (!end.empty()) {
    const OrderedLeaf* const leaf = LeafOf(end);
    return leaf->low() < end || leaf->previous() == nullptr ? leaf : leaf->previous();
  }
  const Inner* inner = &root_;
  for (int level = height_; level > 1; --level) inner = inner->children.back().inner.get();
  return inner->children.back().leaf.get();
}

// --- Reading --------------------------------------------------------------------------------------------

bool OrderedKeys::Has(std::string_view key) const {
  const OrderedLeaf* const leaf = LeafOf(key);
  return leaf != nullptr && leaf->Has(key);
}

std::uint64_t OrderedKeys::CountBelow(std::string_view bound) const {
  std::uint64_t below = 0;
  const Inner* inner = &root_;
  for (int level = height_; !inner->children.empty(); --level) {
    const std::size_t i = ChildFor(*inner, bound);
    for (std::size_t j = 0; j < i; ++j) below += inner->children[j].keys;
    if (level == 1) return below + inner->children[i].leaf->CountBelow(bound);
    inner = inner->children[i].inner.get();
  }
  return below;
}

std::uint64_t OrderedKeys::Count(std::string_view begin, std::string_view end) const {
  if (!end.empty() && begin >= end) return 0;
  return (end.empty() ? size_ : CountBelow(end)) - CountBelow(begin);
}

void OrderedKeys::First(std::string_view begin, std::string_view end, std::size_t most,
                        KeyBatch* keys) const {
  keys->clear();
  if (!root_.children.empty()) FirstUnder(root_, height_, begin, end, most, keys);
}

bool OrderedKeys::FirstUnder(const Inner& inner, int level, std::string_view begin, std::string_view end,
                             std::size_t most, KeyBatch* keys) const {
  for (std::size_t i = ChildFor(inner, begin); i < inner.children.size(); ++i) {
    if (keys->size() == most) return false;
    const Child& child = inner.children[i];
    const bool goes_on = level > 1 ? FirstUnder(*child.inner, level - 1, begin, end, most, keys)
                                   : child.leaf->Collect(begin, end, most, keys);
    if (!goes_on) return false;
  }
  return true;
}

void OrderedKeys::Last(std::string_view begin, std::string_view end, std::size_t most, KeyBatch* keys) const {
  keys->clear();
  if (!root_.children.empty()) LastUnder(root_, height_, begin, end, most, keys);
}

void OrderedKeys::LastUnder(const Inner& inner, int level, std::string_view begin, std::string_view end,
                            std::size_t most, KeyBatch* keys) const {
  const std::size_t first = ChildFor(inner, begin);
  const std::size_t last = end.empty() ? inner.children.size() - 1 : ChildFor(inner, end);
  KeyBatch some;
  for (std::size_t i = last + 1; i > first && keys->size() < most; --i) {
    const Child& child = inner.children[i - 1];
    if (level > 1) {
      LastUnder(*child.inner, level - 1, begin, end, most, keys);
      continue;
    }
    some.clear();
    child.leaf->Collect(begin, end, ~std::size_t{0}, &some);
    for (std::size_t j = some.size(); j > 0 && keys->size() < most; --j) keys->Append(some[j - 1]);
  }
}

}  // namespace remora
