#include "store/ordered/ordered_leaf.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "store/base/check.h"

namespace remora {
namespace {

using leaf_entry::NumberSize;
using leaf_entry::ReadNumber;
using leaf_entry::WriteNumber;

std::size_t SizeOfEntry(std::size_t shared, std::size_t suffix) {
  return NumberSize(shared) + NumberSize(suffix) + suffix;
}

std::size_t SharedSize(std::string_view a, std::string_view b) {
  const auto [end, other] = std::mismatch(
      a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return static_cast<std::size_t>(end - a.begin());
}

}  // namespace

// --- Memory ---------------------------------------------------------------------------------------------

OrderedLeaf::OrderedLeaf(std::size_t capacity, LeafBlocks* blocks)
    : blocks_(blocks), capacity_(static_cast<std::uint32_t>(capacity)) {
  if (blocks_ != nullptr && capacity <= kLeafCapacity) block_ = blocks_->Take();
  if (block_ == nullptr) {
    own_ = std::make_unique_for_overwrite<char[]>(capacity);
    bytes_ = own_.get();
  } else {
    bytes_ = reinterpret_cast<char*>(block_) + sizeof(LeafHeader);
  }
}

OrderedLeaf::~OrderedLeaf() {
  if (block_ != nullptr) blocks_->Give(block_);
}

void OrderedLeaf::MoveToBlock() {
  if (block_ != nullptr || blocks_ == nullptr || capacity_ > kLeafCapacity) return;
  block_ = blocks_->Take();
  if (block_ == nullptr) return;
  bytes_ = reinterpret_cast<char*>(block_) + sizeof(LeafHeader);
  std::memcpy(bytes_, own_.get(), used_);
  own_.reset();
}

void OrderedLeaf::Link(OrderedLeaf* previous, OrderedLeaf* next) {
  previous_ = previous;
  next_ = next;
  if (previous != nullptr) previous->next_ = this;
  if (next != nullptr) next->previous_ = this;
}

void OrderedLeaf::Unlink() {
  if (previous_ != nullptr) previous_->next_ = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  previous_ = next_ = nullptr;
}

std::size_t OrderedLeaf::EntrySize(std::optional<std::string_view> previous, std::string_view key) {
  const std::size_t shared = previous ? SharedSize(*previous, key) : 0;
  return SizeOfEntry(shared, key.size() - shared);
}

// --- Searching ------------------------------------------------------------------------------------------

OrderedLeaf::Entry OrderedLeaf::At(std::size_t offset) const {
  const char* from = bytes() + offset;
  Entry entry;
  entry.shared = ReadNumber(&from);
  const std::size_t size = ReadNumber(&from);
  entry.suffix = std::string_view(from, size);
  entry.end = static_cast<std::size_t>(from - bytes()) + size;
  return entry;
}

// The search compares each byte of `key` once, because L2 says where each key differs from the one before it.
// Let `before` be the bytes that `key` shares with the last key that was less.
//   The next key shares more with that key: it differs from `key` at the same byte, and is less, too.
//   It shares less: at its byte `shared` it is greater than the last key, and so than `key`.
//   It shares as much: the suffix decides.
OrderedLeaf::Spot OrderedLeaf::Find(std::string_view key) const {
  Spot spot;
  for (; spot.offset < used_; ++spot.number) {
    const Entry entry = At(spot.offset);
    if (entry.shared < spot.before) {
      spot.behind = entry.shared;
      return spot;
    }
    if (entry.shared == spot.before) {
      const std::string_view left = key.substr(spot.before);
      const std::size_t same = SharedSize(left, entry.suffix);
      spot.is_there = same == left.size() && same == entry.suffix.size();
      const bool is_less = same == entry.suffix.size()
                               ? same < left.size()
                               : same < left.size() && static_cast<unsigned char>(entry.suffix[same]) <
                                                           static_cast<unsigned char>(left[same]);
      if (!is_less) {
        spot.behind = spot.before + same;
        return spot;
      }
      spot.before += same;
    }
    spot.offset = entry.end;
  }
  return spot;
}

bool OrderedLeaf::Has(std::string_view key) const { return Find(key).is_there; }

std::size_t OrderedLeaf::CountBelow(std::string_view bound) const { return Find(bound).number; }

bool OrderedLeaf::Collect(std::string_view begin, std::string_view end, std::size_t most,
                          KeyBatch* keys) const {
  const Spot spot = Find(begin);
  for (std::size_t offset = spot.offset; offset < used_ && keys->size() < most;) {
    const Entry entry = At(offset);
    if (offset == spot.offset) {
      // The first bytes of this key are those of the key before it, which are those of `begin`.
      std::string key(begin.substr(0, entry.shared));
      key += entry.suffix;
      keys->Append(key);
    } else {
      keys->AppendSharing(entry.shared, entry.suffix);
    }
    if (!end.empty() && (*keys)[keys->size() - 1] >= end) {
      keys->RemoveLast();
      return false;
    }
    offset = entry.end;
  }
  return true;
}

// --- Changes --------------------------------------------------------------------------------------------

OrderedLeaf::Inserted OrderedLeaf::Insert(std::string_view key) {
  const Spot spot = Find(key);
  if (spot.is_there) return Inserted::kThere;
  const bool is_last = spot.offset == used_;
  const std::size_t size = SizeOfEntry(spot.before, key.size() - spot.before);
  // The key behind the new one now shares `behind` bytes with the key before it.
  Entry next;
  std::size_t next_size = 0;
  if (spot.offset < used_) {
    next = At(spot.offset);
    next.suffix.remove_prefix(spot.behind - next.shared);
    next_size = SizeOfEntry(spot.behind, next.suffix.size());
  }
  const std::size_t replaced = next_size == 0 ? 0 : next.end - spot.offset;
  if (used_ - replaced + size + next_size > capacity_) return Inserted::kFull;
  char* const at = bytes() + spot.offset;
  if (next_size != 0) {
    // The rest of the suffix stays as it is, as do the entries behind it: they move together.
    const char* const from = next.suffix.data();
    char* const to = at + size + NumberSize(spot.behind) + NumberSize(next.suffix.size());
    const std::size_t suffix_size = next.suffix.size();
    std::memmove(to, from, static_cast<std::size_t>(bytes() + used_ - from));
    WriteNumber(WriteNumber(at + size, spot.behind), suffix_size);
  }
  char* const suffix = WriteNumber(WriteNumber(at, spot.before), key.size() - spot.before);
  std::memcpy(suffix, key.data() + spot.before, key.size() - spot.before);
  used_ = static_cast<std::uint32_t>(used_ - replaced + size + next_size);
  ++count_;
  return is_last ? Inserted::kLast : Inserted::kDone;
}

void OrderedLeaf::Append(std::optional<std::string_view> previous, std::string_view key) {
  const std::size_t shared = previous ? SharedSize(*previous, key) : 0;
  REMORA_CHECK(used_ + SizeOfEntry(shared, key.size() - shared) <= capacity_);
  char* const suffix = WriteNumber(WriteNumber(bytes() + used_, shared), key.size() - shared);
  std::memcpy(suffix, key.data() + shared, key.size() - shared);
  used_ = static_cast<std::uint32_t>(static_cast<std::size_t>(suffix - bytes()) + key.size() - shared);
  ++count_;
}

bool OrderedLeaf::Erase(std::string_view key) {
  const Spot spot = Find(key);
  if (!spot.is_there) return false;
  const Entry erased = At(spot.offset);
  char* to = bytes() + spot.offset;
  const char* from = bytes() + erased.end;
  if (erased.end < used_) {
    // The next key loses the key from which it took bytes.
    const Entry next = At(erased.end);
    const std::size_t shared = std::min(next.shared, erased.shared);
    const std::string_view taken = key.substr(shared, next.shared - shared);
    to = WriteNumber(WriteNumber(to, shared), taken.size() + next.suffix.size());
    from = next.suffix.data();
    std::memcpy(to, taken.data(), taken.size());
    to += taken.size();
  }
  // The new entry ends before the suffix that it keeps: it takes at most the bytes of the erased suffix.
  std::memmove(to, from, static_cast<std::size_t>(bytes() + used_ - from));
  used_ -= static_cast<std::uint32_t>(from - to);
  --count_;
  return true;
}

// --- What clients READ ----------------------------------------------------------------------------------

void OrderedLeaf::Publish() {
  is_changed_ = false;
  if (block_ == nullptr) return;
  is_readable_ = false;
  if (count_ == 0) return LeafBlocks::MarkDead(block_);
  const std::string_view first = At(0).suffix;  // which shares nothing
  const std::string_view high = next_ == nullptr ? std::string_view() : std::string_view(next_->low_);
  LeafHeader header{};
  const auto shared_with_first = [&](std::string_view fence) {
    return static_cast<std::uint16_t>(SharedSize(first, fence));
  };
  header.low_shared = shared_with_first(low_);
  header.high_shared = shared_with_first(high);
  const std::string_view low_end = std::string_view(low_).substr(header.low_shared);
  const std::string_view high_end = high.substr(header.high_shared);
  const std::size_t fences_size = low_end.size() + high_end.size();
  is_readable_ = used_ + fences_size <= kLeafSpace;
  if (!is_readable_) return LeafBlocks::MarkDead(block_);
  header.version = blocks_->NextVersion();
  header.next = next_ == nullptr ? 0 : next_->place();
  header.used = static_cast<std::uint16_t>(used_);
  header.count = static_cast<std::uint16_t>(count_);
  header.low_size = static_cast<std::uint16_t>(low_end.size());
  header.high_size = static_cast<std::uint16_t>(high_end.size());
  char* const end = reinterpret_cast<char*>(block_) + kLeafBlockSize;
  high_end.copy(end - high_end.size(), high_end.size());  // no copy of 0 bytes from a null pointer
  low_end.copy(end - fences_size, low_end.size());
  const std::uint64_t checksum = LeafChecksum(header, {bytes_, used_}, {end - fences_size, fences_size},
                                              place(), blocks_->incarnation());
  // All but the checksum, which comes last (B2).
  constexpr std::size_t kBehind = offsetof(LeafHeader, version);
  std::memcpy(block_ + kBehind, reinterpret_cast<const std::byte*>(&header) + kBehind,
              sizeof(header) - kBehind);
  LeafBlocks::StoreChecksum(block_, checksum);
}

// --- Checks ---------------------------------------------------------------------------------------------

std::string OrderedLeaf::FindFault() const {
  std::string previous;
  std::size_t count = 0;
  std::size_t offset = 0;
  for (; offset < used_; ++count) {
    const Entry entry = At(offset);
    if (entry.shared > previous.size() || entry.end > used_)
      return "L2: an entry takes bytes that are missing";
    const std::string key = previous.substr(0, entry.shared) + std::string(entry.suffix);
    if (count > 0 && key <= previous) return "L1: a key is not greater than the one before it";
    if (entry.shared != SharedSize(previous, key)) return "L2: a key could share more";
    previous = key;
    offset = entry.end;
  }
  if (offset != used_ || count != count_ || used_ > capacity_) return "L3: the sizes differ";
  return block_ == nullptr ? "" : FindImageFault();
}

std::string OrderedLeaf::FindImageFault() const {
  LeafImage image;
  const LeafRead read =
      ReadLeaf({block_, kLeafBlockSize}, blocks_->OffsetOf(block_), blocks_->incarnation(), &image);
  if (!is_readable_) return read == LeafRead::kDead ? "" : "L4: a leaf that does not fit is not dead";
  if (read != LeafRead::kVerified) return "L4: a leaf does not verify";
  KeyBatch keys;
  Collect({}, {}, count_, &keys);
  bool is_same = keys.size() == image.keys.size() && image.low == low_ &&
                 image.has_high == (next_ != nullptr) && (next_ == nullptr || image.high == next_->low_);
  for (std::size_t i = 0; is_same && i < keys.size(); ++i) is_same = keys[i] == image.keys[i];
  return is_same ? "" : "L4: clients would see another leaf";
}

}  // namespace remora
