// A leaf of the ordered index, as clients READ it: a block in a segment of the region.
//
//   header   LeafHeader
//   entries  `used` bytes; for each key, in ascending order:
//              shared   bytes that the key has in common with the key before it; 1 or 2 bytes
//              size     bytes that follow; 1 or 2 bytes
//              suffix   the key without its first `shared` bytes
//   unused
//   fences   at the end of the block: the low one and the high one, without their first bytes, which they
//            share with the first key
//
// The writer changes a leaf in place, and its checksum last. A reader copies the whole block, at any time.
//
//   B1  A block of leaves stays one as long as the store lives, and is at a multiple of its size. So bytes
//       of a record, which a client chooses, are never at a place to which a leaf or the server leads.
//   B2  The checksum covers the place, the store, and a version that no other image of a leaf has. So each
//       image has its own checksum, which is stored last. The image is *current* from then on, until another
//       checksum, or 0, is stored in its place.
//   B3  The checksum of a block that is no leaf is 0. It is stored before the block is used for another leaf,
//       and before any change of the keys that comes behind the freeing one.
//   B4  The current image of a block has all keys of [low, high) that the hash index has. The writer enters a
//       key in its leaf before the hash index has it, and erases it there after the hash index lost it. The
//       images of all leaves that a change concerns are current, and those that it freed are dead, before the
//       hash index gets the key of that change.
//
// Why a verified leaf is complete. Its checksum was in memory at some moment between the post of the READ and
// its end. For other images have other checksums, and bytes of these make up this one only by chance, as 1 to
// 2^64. By B2 the image was current at that moment. By B4 it had all keys of [low, high) then. It may have
// more: a key that was erased since, or that is about to get its record. A GET of such a key finds nothing,
// and the scan leaves it out.
//
// A link is a hint: each leaf says itself which keys it has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "store/format/memory/hash.h"
#include "store/format/memory/key_batch.h"
#include "store/format/memory/layout.h"

namespace remora {

inline constexpr std::size_t kLeafBlockSize = 2048;
inline constexpr std::size_t kLeavesPerSegment = kSegmentSize / kLeafBlockSize;

struct LeafHeader {
  std::uint64_t checksum;  // LeafChecksum; 0: the block is no leaf
  std::uint64_t version;
  std::uint64_t next;  // offset of the next leaf in the region; 0: unknown
  std::uint16_t used;
  std::uint16_t count;
  std::uint16_t low_shared;  // bytes that the low fence shares with the first key
  std::uint16_t low_size;    // bytes that follow
  std::uint16_t high_shared;
  std::uint16_t high_size;  // 0: the leaf has no high fence, and all keys from `low` on
  std::uint32_t reserved;   // 0
};
static_assert(sizeof(LeafHeader) == 40 && std::has_unique_object_representations_v<LeafHeader>);

/// Bytes of entries and fences together.
inline constexpr std::size_t kLeafSpace = kLeafBlockSize - sizeof(LeafHeader);
/// Bytes of entries of a full leaf. Longer fences fit into a leaf that is not full.
inline constexpr std::size_t kLeafCapacity = kLeafSpace - 32;

// --- Entries --------------------------------------------------------------------------------------------

// Numbers below kTwoBytes take one byte, others two: kTwoBytes and the upper bits, then the lower ones.
namespace leaf_entry {

inline constexpr std::size_t kTwoBytes = 0xe0;

inline std::size_t NumberSize(std::size_t number) { return number < kTwoBytes ? 1 : 2; }

inline char* WriteNumber(char* to, std::size_t number) {
  if (number >= kTwoBytes) *to++ = static_cast<char>(kTwoBytes | number >> 8);
  *to++ = static_cast<char>(number & 0xff);
  return to;
}

inline std::size_t ReadNumber(const char** from) {
  const auto next = [from] { return static_cast<std::size_t>(static_cast<unsigned char>(*(*from)++)); };
  const std::size_t first = next();
  return first < kTwoBytes ? first : (first & ~kTwoBytes) << 8 | next();
}

/// Takes a number from bytes that may be anything. Returns false if it is cut.
inline bool TakeNumber(std::string_view* bytes, std::size_t* number) {
  if (bytes->empty()) return false;
  const bool has_two = static_cast<unsigned char>(bytes->front()) >= kTwoBytes;
  if (bytes->size() < (has_two ? 2u : 1u)) return false;
  const char* at = bytes->data();
  *number = ReadNumber(&at);
  bytes->remove_prefix(has_two ? 2 : 1);
  return true;
}

}  // namespace leaf_entry

// --- Images ---------------------------------------------------------------------------------------------

/// Returns the checksum of a leaf at `place`, an offset in the region.
inline std::uint64_t LeafChecksum(const LeafHeader& header, std::string_view entries, std::string_view fences,
                                  std::uint64_t place, std::uint64_t incarnation) {
  const std::uint64_t covered[] = {
      place,
      incarnation,
      header.version,
      header.next,
      std::uint64_t{header.used} << 48 | std::uint64_t{header.count} << 32 |
          std::uint64_t{header.low_shared} << 16 | header.low_size,
      std::uint64_t{header.high_shared} << 48 | std::uint64_t{header.high_size} << 32 | header.reserved,
      HashValue(entries.data(), entries.size()),
      HashValue(fences.data(), fences.size())};
  return HashValue(reinterpret_cast<const char*>(covered), sizeof(covered));
}

/// Content of a verified leaf.
struct LeafImage {
  std::string low{};
  std::string high{};  // if has_high
  bool has_high = false;
  std::uint64_t next = 0;
  std::uint64_t version = 0;
  KeyBatch keys{};  // in ascending order

  /// Returns whether the leaf has the key, if anything has it.
  bool Covers(std::string_view key) const { return key >= low && (!has_high || key < high); }
  /// Returns whether the leaf has the greatest key below `end`, if a key from `low` on is below it. Empty:
  /// behind all keys.
  bool CoversBelow(std::string_view end) const {
    return end.empty() ? !has_high : end > low && (!has_high || end <= high);
  }
};

enum class LeafRead : std::uint8_t {
  kVerified = 1,
  kDead = 2,       // the block was no leaf at some moment of the READ
  kTorn = 3,       // it does not verify: it changed meanwhile
  kMalformed = 4,  // it verifies, and breaks the format: the server is faulty
};

/// Returns whether a key is greater than the one before it, of which it shares the first bytes. `rest` and
/// `suffix` are the bytes of both behind these. Most keys differ in the first of them.
inline bool Ascends(std::string_view rest, std::string_view suffix) {
  if (rest.empty() || suffix.empty()) return rest.empty() && !suffix.empty();
  const auto first = static_cast<unsigned char>(rest.front());
  const auto next = static_cast<unsigned char>(suffix.front());
  return first == next ? suffix > rest : next > first;
}

/// Reads the entries of a leaf, which may be anything. Returns false if they are not `count` ascending keys.
inline bool ReadLeafEntries(std::string_view entries, std::size_t count, KeyBatch* keys) {
  keys->clear();
  std::string_view previous;
  while (!entries.empty()) {
    std::size_t shared = 0;
    std::size_t size = 0;
    if (!leaf_entry::TakeNumber(&entries, &shared) || !leaf_entry::TakeNumber(&entries, &size)) return false;
    if (size > entries.size() || shared + size < kMinKeySize || shared + size > kMaxKeySize) return false;
    const std::string_view suffix = entries.substr(0, size);
    if (shared > previous.size()) return false;
    if (!keys->empty() && !Ascends(previous.substr(shared), suffix)) return false;
    previous = keys->AppendSharing(shared, suffix);
    entries.remove_prefix(size);
  }
  return keys->size() == count && count > 0;
}

/// Reads a leaf out of a copy of the block at `place`. *image is unspecified unless it is kVerified.
inline LeafRead ReadLeaf(std::span<const std::byte> block, std::uint64_t place, std::uint64_t incarnation,
                         LeafImage* image) {
  LeafHeader header;
  std::memcpy(&header, block.data(), sizeof(header));
  if (header.checksum == 0) return LeafRead::kDead;
  const std::size_t fences_size = std::size_t{header.low_size} + header.high_size;
  if (header.used + fences_size > kLeafSpace) return LeafRead::kTorn;
  const auto* const bytes = reinterpret_cast<const char*>(block.data());
  const std::string_view entries(bytes + sizeof(header), header.used);
  const std::string_view fences(bytes + kLeafBlockSize - fences_size, fences_size);
  if (LeafChecksum(header, entries, fences, place, incarnation) != header.checksum) return LeafRead::kTorn;
  KeyBatch& keys = image->keys;
  if (header.reserved != 0 || !ReadLeafEntries(entries, header.count, &keys)) return LeafRead::kMalformed;
  const std::string_view first = keys[0];
  if (std::max(header.low_shared, header.high_shared) > first.size()) return LeafRead::kMalformed;
  image->low.assign(first.substr(0, header.low_shared));
  image->low += fences.substr(0, header.low_size);
  image->has_high = header.high_size > 0;
  image->high.assign(first.substr(0, header.high_shared));
  image->high += fences.substr(header.low_size);
  image->next = header.next;
  image->version = header.version;
  const bool is_good = image->low <= first &&
                       std::max(image->low.size(), image->high.size()) <= kMaxKeySize &&
                       (!image->has_high || keys[keys.size() - 1] < image->high);
  return is_good ? LeafRead::kVerified : LeafRead::kMalformed;
}

/// Returns whether a leaf can be at this offset of a region.
constexpr bool IsLeafPlace(std::uint64_t offset, std::uint64_t memory_size) {
  return offset % kLeafBlockSize == 0 && offset >= kSegmentSize && offset < memory_size &&
         memory_size - offset >= kLeafBlockSize;
}

}  // namespace remora
