// A batch of writes that are done all or none: as it is built, and as bytes in a message.
//
//   for each write:   BatchEntry | key | value
//
// A reader of such bytes checks everything: they may come from anybody.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "store/format/memory/layout.h"
#include "store/format/types/bounds.h"
#include "store/format/types/expiry.h"
#include "store/format/types/write_options.h"

namespace remora {

/// Bounds of a batch: the bytes of all entries, keys and values together, and the number of its writes. Such
/// a batch fits into a staging buffer, and into a segment of the log.
inline constexpr std::size_t kMaxBatchBytes = std::size_t{256} << 10;
inline constexpr std::size_t kMaxBatchWrites = 1024;

/// kCheck writes nothing: the batch is done only if the condition on its key holds. Checks stand behind all
/// writes. A server of an earlier release rejects the batch as malformed, and does nothing.
enum class BatchKind : std::uint8_t { kPut = 1, kDelete = 2, kCheck = 3 };

/// Header of each write in a message.
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

/// Returns why so many writes, or so many bytes with an entry for each, are too many. Empty: they
/// are not.
inline std::string NoBatch(std::size_t count, std::size_t bytes) {
  if (count > kMaxBatchWrites) {
    return "a batch of " + std::to_string(count) + " writes; allowed are up to " +
           std::to_string(kMaxBatchWrites);
  }
  if (bytes > kMaxBatchBytes) {
    return "a batch of " + std::to_string(bytes) + " bytes, with " + std::to_string(sizeof(BatchEntry)) +
           " for each write; allowed are up to " + std::to_string(kMaxBatchBytes);
  }
  return {};
}

/// Puts and deletes, in order, to be handed to Apply of a Store or a Client.
///
/// Thread safety: none.
class WriteBatch {
 public:
  /// Adds a write; the bytes are copied. It does the same as the single write of that name, but a
  /// Delete of a missing key fails, and with it the batch. A key may come more than once. Apply
  /// reports values out of bounds. Durability and version are those of the whole batch, and given
  /// to Apply: here they are out of bounds.
  void Put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    Add(BatchKind::kPut, key, value, options);
  }
  void Delete(std::string_view key, const WriteOptions& options = {}) {
    Add(BatchKind::kDelete, key, {},
        {.condition = options.condition, .durability = options.durability, .version = options.version});
  }
  /// Adds a requirement on a key that the batch does not write, behind all writes. Apply fails as the write
  /// under that condition would. A batch of checks alone tells whether all of them hold at one moment; its
  /// version is 0.
  void Check(std::string_view key, const Condition& condition) {
    Add(BatchKind::kCheck, key, {}, {.condition = condition});
  }
  /// Removes all writes, and the fault.
  void Clear() { *this = {}; }

  /// Returns how many writes and checks were added.
  std::size_t count() const { return count_; }
  /// Returns the first value out of bounds, as far as that can be known without the store. Empty:
  /// none.
  std::string fault() const { return fault_.empty() ? NoBatch(count_, size_) : fault_; }
  /// Returns the batch as it goes into a message, valid until the batch changes. REQUIRES: there is no fault.
  std::string_view bytes() const { return bytes_; }

 private:
  static std::string FaultOf(std::string_view key, std::string_view value, const PutOptions& options) {
    if (!IsKey(key)) return NoKey(key.size());
    if (value.size() > kMaxBatchBytes) {
      return "value: it has " + std::to_string(value.size()) + " bytes, and a batch up to " +
             std::to_string(kMaxBatchBytes) + "; put it by itself";
    }
    if (options.ttl && !IsTtl(*options.ttl)) return NoTtl(*options.ttl);
    if (!options.condition.IsValid()) return std::string(kNoSuchVersion);
    if (options.durability) return "durability: a batch has one for all writes; pass it to Apply";
    if (options.version != nullptr) return "version: a batch has one; pass the pointer to Apply";
    return {};
  }

  void Add(BatchKind kind, std::string_view key, std::string_view value, const PutOptions& options) {
    ++count_;
    size_ += sizeof(BatchEntry) + key.size() + value.size();
    if (!fault_.empty()) return;
    if (kind != BatchKind::kCheck && has_check_) {
      fault_ = "write " + std::to_string(count_) + " of the batch: it stands behind a check; add checks last";
      return;
    }
    has_check_ = kind == BatchKind::kCheck;
    if (fault_ = FaultOf(key, value, options); !fault_.empty()) {
      fault_ = "write " + std::to_string(count_) + " of the batch: " + fault_;
    }
    if (!fault_.empty() || count_ > kMaxBatchWrites || size_ > kMaxBatchBytes) return;
    BatchEntry entry;
    entry.condition = options.condition.Encode();
    entry.ttl_ms = EncodeTtl(options.ttl);
    entry.value_size = static_cast<std::uint32_t>(value.size());
    entry.key_size = static_cast<std::uint16_t>(key.size());
    entry.kind = kind;
    bytes_.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
    bytes_ += key;
    bytes_ += value;
  }

  std::string bytes_;
  std::size_t size_ = 0;  // that it would have, were all in bounds
  std::size_t count_ = 0;
  bool has_check_ = false;
  std::string fault_;  // of the first write that has one; empty: none
};

/// One write of a batch.
struct BatchWrite {
  BatchEntry entry;
  std::string_view key;
  std::string_view value;
};

/// Takes the next write off `bytes`, into which it points. Nothing: the bytes contradict
/// themselves. The caller that does the write checks that its values are in bounds.
inline std::optional<BatchWrite> TakeBatchWrite(std::string_view* bytes) {
  BatchWrite write;
  if (bytes->size() < sizeof(write.entry)) return std::nullopt;
  std::memcpy(&write.entry, bytes->data(), sizeof(write.entry));
  bytes->remove_prefix(sizeof(write.entry));
  const BatchEntry& entry = write.entry;
  if (entry.reserved != 0 || entry.kind < BatchKind::kPut || entry.kind > BatchKind::kCheck) {
    return std::nullopt;
  }
  const bool has_value = entry.kind == BatchKind::kPut;
  if (!has_value && (entry.value_size != 0 || entry.ttl_ms != 0)) return std::nullopt;
  if (std::uint64_t{entry.key_size} + entry.value_size > bytes->size()) return std::nullopt;
  write.key = bytes->substr(0, entry.key_size);
  write.value = bytes->substr(entry.key_size, entry.value_size);
  bytes->remove_prefix(std::size_t{entry.key_size} + entry.value_size);
  return write;
}

}  // namespace remora
