// A batch of writes that are done all or none: as it is built, and as bytes in a message.
//
//   for each write:   BatchEntry | key | value
//
// Whoever reads such bytes checks everything: they may come from anybody.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "store/format/expiry.h"
#include "store/format/layout.h"
#include "store/format/write_options.h"

namespace remora {

/// Of all entries, keys and values together. Such a batch fits into a slice, and into a segment of the log.
inline constexpr std::size_t kMaxBatchBytes = std::size_t{256} << 10;
inline constexpr std::size_t kMaxBatchWrites = 1024;

inline constexpr std::string_view kBatchOutOfBounds =
    "a batch with a key, value, ttl or condition out of bounds, or of more than 1024 writes or 262144 bytes, "
    "with "
    "24 for each write";
static_assert(kMaxBatchWrites == 1024 && kMaxBatchBytes == 262144, "the text names them");

enum class BatchKind : std::uint8_t { kPut = 1, kDelete = 2 };

struct BatchEntry {
  std::uint64_t condition = 0;  // Condition::Encode
  std::int64_t ttl_ms = 0;      // kPut: EncodeTtl
  std::uint32_t value_size = 0;
  std::uint16_t key_size = 0;
  BatchKind kind = BatchKind::kPut;
  std::uint8_t reserved = 0;
};
static_assert(sizeof(BatchEntry) == 24);
static_assert(std::has_unique_object_representations_v<BatchEntry>);

/// Puts and deletes, in order, to be handed to Apply of a Store or a Client.
///
/// Thread Safety: none.
class WriteBatch {
 public:
  /// The bytes are copied. What is out of bounds is found out by Apply. As the write of that name does it
  /// alone; a Delete of what is not there fails, and with it the batch.
  void Put(std::string_view key, std::string_view value, Condition condition = {},
           std::optional<std::chrono::milliseconds> ttl = std::nullopt) {
    Add(BatchKind::kPut, key, value, condition, ttl);
  }
  void Delete(std::string_view key, Condition condition = {}) {
    Add(BatchKind::kDelete, key, {}, condition, std::nullopt);
  }
  void Clear() { *this = {}; }

  std::size_t count() const { return count_; }
  /// Whether everything is in bounds, as far as that can be known without the store.
  bool is_good() const { return is_good_ && count_ <= kMaxBatchWrites && bytes_.size() <= kMaxBatchBytes; }
  /// REQUIRES: is_good.
  std::string_view bytes() const { return bytes_; }

 private:
  void Add(BatchKind kind, std::string_view key, std::string_view value, Condition condition,
           std::optional<std::chrono::milliseconds> ttl) {
    ++count_;
    is_good_ = is_good_ && key.size() >= kMinKeySize && key.size() <= kMaxKeySize &&
               value.size() <= kMaxBatchBytes && bytes_.size() <= kMaxBatchBytes && condition.IsValid() &&
               (!ttl || IsTtl(*ttl));
    if (!is_good_) return;
    BatchEntry entry;
    entry.condition = condition.Encode();
    entry.ttl_ms = EncodeTtl(ttl);
    entry.value_size = static_cast<std::uint32_t>(value.size());
    entry.key_size = static_cast<std::uint16_t>(key.size());
    entry.kind = kind;
    bytes_.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
    bytes_ += key;
    bytes_ += value;
  }

  std::string bytes_;
  std::size_t count_ = 0;
  bool is_good_ = true;
};

/// One write of a batch.
struct BatchWrite {
  BatchEntry entry;
  std::string_view key;
  std::string_view value;
};

/// Takes the next write off `bytes`, into which it points. Nothing: what they say of themselves is not so.
/// That what they say is in bounds is for who does the write to check.
inline std::optional<BatchWrite> TakeBatchWrite(std::string_view* bytes) {
  BatchWrite write;
  if (bytes->size() < sizeof(write.entry)) return std::nullopt;
  std::memcpy(&write.entry, bytes->data(), sizeof(write.entry));
  bytes->remove_prefix(sizeof(write.entry));
  const BatchEntry& entry = write.entry;
  const bool is_delete = entry.kind == BatchKind::kDelete;
  if (entry.reserved != 0 || (entry.kind != BatchKind::kPut && !is_delete)) return std::nullopt;
  if (is_delete && (entry.value_size != 0 || entry.ttl_ms != 0)) return std::nullopt;
  if (std::uint64_t{entry.key_size} + entry.value_size > bytes->size()) return std::nullopt;
  write.key = bytes->substr(0, entry.key_size);
  write.value = bytes->substr(entry.key_size, entry.value_size);
  bytes->remove_prefix(std::size_t{entry.key_size} + entry.value_size);
  return write;
}

}  // namespace remora
