// Options of a write, beside its key and value. The store and its clients take the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "store/format/memory/layout.h"
#include "store/format/types/expiry.h"

namespace remora {

/// The failures that an acknowledged write has survived by then. Each level says more than the one
/// before.
enum class Durability : std::uint8_t {
  kMemory = 1,  // nothing: it is visible, and may be gone with the process
  kLogged =
      2,  // it is in the commit log, or RocksDB's log: it survives the process's death, not the machine's
  kSynced = 3,  // the disk has it, and had it before anybody could read it
};

/// Returns the level's name, as flags and documents have it.
constexpr const char* DurabilityName(Durability durability) {
  switch (durability) {
    case Durability::kMemory:
      return "memory";
    case Durability::kLogged:
      return "logged";
    case Durability::kSynced:
      break;
  }
  return "synced";
}

/// Returns the form in a message, 0 for none, and back. The byte of a message may be anything.
constexpr std::uint8_t EncodeDurability(std::optional<Durability> durability) {
  return durability ? static_cast<std::uint8_t>(*durability) : 0;
}
constexpr std::optional<Durability> DecodeDurability(std::uint8_t byte) {
  if (byte == 0) return std::nullopt;
  return static_cast<Durability>(byte);
}
/// Returns whether it is none or one of the levels.
constexpr bool IsDurability(std::optional<Durability> durability) {
  return !durability || (*durability >= Durability::kMemory && *durability <= Durability::kSynced);
}

/// Requirement on a key for a write of it to be done. It is decided at the point where writes get
/// their order, as of all writes before, from any client. A record whose time is over counts for
/// nothing.
///
/// A record's time may end between that point and the moment at which the write is seen
/// (Durability::kSynced: when the disk has it). A Get in between may miss such a record. It may
/// also miss it before an increment, an append, a touch or a delete.
class Condition {
 public:
  /// Makes a condition that always holds: the write is done in any case.
  constexpr Condition() = default;
  /// Makes a condition that the key does not exist. If it does: AlreadyExists.
  static constexpr Condition Absent() { return Condition(kAbsent); }
  /// Makes a condition that the key exists. If it does not: NotFound.
  static constexpr Condition Present() { return Condition(kPresent); }
  /// Makes a condition that the key exists and that its version is `version`, which a Get or a write
  /// returned. Outcomes: NotFound if the key does not exist; FailedPrecondition if it has another version,
  /// which the message names.
  static constexpr Condition Version(std::uint64_t version) {
    return Condition(version > 0 && version < kMaxVersion ? version : kMaxVersion);
  }

  /// Returns whether the condition always holds.
  constexpr bool is_none() const { return word_ == 0; }
  /// Returns false for a version that no write ever gets.
  constexpr bool IsValid() const { return word_ < kMaxVersion || *this == Absent() || *this == Present(); }

  /// Returns the form in a message, and back. The word of a message may be anything.
  constexpr std::uint64_t Encode() const { return word_; }
  static constexpr Condition Decode(std::uint64_t word) { return Condition(word); }

  /// Returns the version that the key must have. REQUIRES: neither none, nor Absent or Present.
  constexpr std::uint64_t version() const { return word_; }

  friend constexpr bool operator==(const Condition&, const Condition&) = default;

 private:
  static constexpr std::uint64_t kAbsent = ~std::uint64_t{0};
  static constexpr std::uint64_t kPresent = kAbsent - 1;

  constexpr explicit Condition(std::uint64_t word) : word_(word) {}

  std::uint64_t word_ = 0;
};

/// Options of a write that stores a value.
struct PutOptions {
  /// Time until the record expires, or Until (store/format/types/expiry.h) for the moment: OutOfRange if that
  /// is in the past. None: the store's default; an increment or an append of an existing value keeps its
  /// expiry.
  std::optional<std::chrono::milliseconds> ttl{};
  Condition condition{};
  /// Durability level. None: the store's (StoreOptions, kvserver --durability). A store of kMemory
  /// knows no other: InvalidArgument.
  std::optional<Durability> durability{};
  /// Gets the version of this write when it was done, unless it is null.
  std::uint64_t* version = nullptr;
};

/// One write of a MultiPut; version of its options may be null.
struct PutRequest {
  std::string_view key{};
  std::string_view value{};
  PutOptions options{};
};

/// Options of other writes.
struct WriteOptions {
  Condition condition{};
  std::optional<Durability> durability{};
  std::uint64_t* version = nullptr;  // as PutOptions
};

}  // namespace remora
