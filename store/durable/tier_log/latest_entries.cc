#include "store/durable/tier_log/latest_entries.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "store/format/memory/hash.h"

namespace remora {
namespace {

constexpr std::size_t kBlockSize = std::size_t{256} << 10;

constexpr std::size_t RoundUp(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

/// Returns the 8 bytes of the key behind `skipped`, as a number in their order. Missing bytes are zeros.
std::uint64_t PrefixOf(std::string_view key, std::size_t skipped) {
  std::uint64_t bytes = 0;
  const std::string_view rest = key.substr(std::min(skipped, key.size()), sizeof(bytes));
  if (!rest.empty()) std::memcpy(&bytes, rest.data(), rest.size());
  return __builtin_bswap64(bytes);
}

std::size_t CommonPrefix(std::string_view a, std::string_view b, std::size_t most) {
  const std::size_t size = std::min({a.size(), b.size(), most});
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first - a.begin());
}

}  // namespace

LatestEntries::Kept** LatestEntries::Find(std::string_view key) {
  Kept** at = &by_hash_.try_emplace(HashKey(key), nullptr).first->second;
  while (*at != nullptr && (*at)->entry.key != key) at = &(*at)->next;
  return at;
}

LatestEntries::Kept* LatestEntries::Allocate(std::size_t size) {
  size = RoundUp(sizeof(Kept) + size);
  bytes_ += size;
  if (size > kBlockSize / 4) {
    // Blocks of new char[] are aligned for any type of that size.
    return new (large_.emplace_back(std::make_unique_for_overwrite<char[]>(size)).get()) Kept;
  }
  if (left_ < size) {
    if (next_block_ == blocks_.size()) blocks_.push_back(std::make_unique_for_overwrite<char[]>(kBlockSize));
    at_ = blocks_[next_block_++].get();
    left_ = kBlockSize;
  }
  char* const at = at_;
  at_ += size;
  left_ -= size;
  return new (at) Kept;
}

void LatestEntries::Set(const LogEntry& entry) {
  Kept** const found = Find(entry.key);
  Kept* kept = *found;
  if (kept == nullptr || kept->capacity < entry.value.size()) {
    Kept* const made = Allocate(entry.key.size() + entry.value.size());
    char* const key = reinterpret_cast<char*>(made + 1);
    if (!entry.key.empty()) std::memcpy(key, entry.key.data(), entry.key.size());
    made->entry.key = {key, entry.key.size()};
    made->capacity = entry.value.size();
    if (kept == nullptr) ++size_;
    if (kept != nullptr) made->next = kept->next;
    *found = kept = made;
  }
  const std::string_view key = kept->entry.key;
  char* const value = const_cast<char*>(key.data()) + key.size();  // behind the key, in the block
  if (!entry.value.empty()) std::memcpy(value, entry.value.data(), entry.value.size());
  kept->entry = entry;
  kept->entry.key = key;
  kept->entry.value = {value, entry.value.size()};
  kept->entry.request = {};
}

void LatestEntries::SetView(const LogEntry& entry) {
  Kept** const found = Find(entry.key);
  if (*found == nullptr) {
    *found = Allocate(0);
    ++size_;
  }
  (*found)->entry = entry;
  (*found)->capacity = 0;
}

std::vector<const LogEntry*> LatestEntries::Sorted() const {
  struct Item {
    std::uint64_t prefix;
    const LogEntry* entry;
  };
  std::vector<Item> items;
  items.reserve(size_);
  // Most keys differ in the 8 bytes behind what all have in common. Then the sort reads no key.
  std::size_t common = std::size_t{1} << 16;
  for (const auto& [hash, first] : by_hash_) {
    for (const Kept* kept = first; kept != nullptr; kept = kept->next) {
      items.push_back({0, &kept->entry});
      common = CommonPrefix(items.front().entry->key, kept->entry.key, common);
    }
  }
  for (Item& item : items) item.prefix = PrefixOf(item.entry->key, common);
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.prefix != b.prefix ? a.prefix < b.prefix : a.entry->key < b.entry->key;
  });
  std::vector<const LogEntry*> sorted;
  sorted.reserve(items.size());
  for (const Item& item : items) sorted.push_back(item.entry);
  return sorted;
}

void LatestEntries::Clear() {
  by_hash_.clear();
  large_.clear();
  next_block_ = 0;
  at_ = nullptr;
  left_ = 0;
  size_ = 0;
  bytes_ = 0;
}

}  // namespace remora
