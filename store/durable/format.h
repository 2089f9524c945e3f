// The bytes that the durable tier keeps in RocksDB (tier.h says under which keys), and how they are
// read. A disk, or a hand, may have changed them: what is out of bounds is no entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "store/durable/completion_records.h"
#include "store/format/memory/layout.h"

namespace remora {

/// Stands before each value on disk.
struct StoredHeader {
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // 0: never
};
static_assert(sizeof(StoredHeader) == 16 && offsetof(StoredHeader, expiry_ms) == 8);
static_assert(std::has_unique_object_representations_v<StoredHeader>);

/// A key and what is stored under it. The bytes are whoever's who shows it.
struct StoredEntry {
  std::string_view key{};
  StoredHeader header{};
  std::string_view value{};
};

/// Whether a key and what is stored under it, header included, have sizes that an entry may have.
inline bool IsEntrySized(std::string_view key, std::string_view stored) {
  return key.size() >= kMinKeySize && key.size() <= kMaxKeySize && stored.size() >= sizeof(StoredHeader) &&
         stored.size() - sizeof(StoredHeader) <= kMaxValueSize;
}

/// False: it is no entry, for its sizes, or because its version is not below the limit.
inline bool ReadEntry(std::string_view key, std::string_view stored, std::uint64_t version_limit,
                      StoredEntry* entry) {
  if (!IsEntrySized(key, stored)) return false;
  std::memcpy(&entry->header, stored.data(), sizeof(entry->header));
  entry->key = key;
  entry->value = stored.substr(sizeof(StoredHeader));
  return entry->header.version != 0 && entry->header.version < version_limit;
}

/// Nothing: it is none that was ever written.
inline std::optional<std::uint64_t> ReadVersionLimit(std::string_view stored) {
  std::uint64_t limit = 0;
  if (stored.size() != sizeof(limit)) return std::nullopt;
  std::memcpy(&limit, stored.data(), sizeof(limit));
  if (limit == 0 || limit > kMaxVersion) return std::nullopt;
  return limit;
}

inline constexpr std::string_view kClientPrefix = "client";

/// The key of a client in the meta family; of one of its writes with a byte more, and so behind it. Short
/// enough to need no memory.
inline std::string ClientKey(std::uint64_t client) {
  std::string key(kClientPrefix);
  return key.append(reinterpret_cast<const char*>(&client), sizeof(client));
}
inline std::string OutcomeKey(const RequestName& request) {
  return ClientKey(request.client) + static_cast<char>(request.number % kRememberedWrites);
}

/// Adds what is remembered of a client, which comes in the order of its keys: the client, then its writes.
/// `key`: behind the prefix. False: their sizes are wrong.
inline bool ReadRemembered(std::string_view key, std::string_view stored,
                           std::vector<RememberedClient>* clients) {
  std::uint64_t client = 0;
  const bool is_write = key.size() == sizeof(client) + 1;
  if (!is_write && key.size() != sizeof(client)) return false;
  if (stored.size() != (is_write ? sizeof(RememberedWrite) : sizeof(RememberedClient::since_ms)))
    return false;
  std::memcpy(&client, key.data(), sizeof(client));
  if (!is_write) {
    clients->push_back({.client = client});
    std::memcpy(&clients->back().since_ms, stored.data(), stored.size());
  } else if (!clients->empty() && clients->back().client == client) {  // else R1 failed
    std::memcpy(&clients->back().writes.emplace_back(), stored.data(), stored.size());
  }
  return true;
}

/// The incarnations that a data directory has seen, the last kOpenings of them, the first one first; and the
/// sequence of the last write that each found.
struct Opening {
  std::uint64_t incarnation = 0;
  std::uint64_t found = 0;
};
inline constexpr std::size_t kOpenings = 1024;
static_assert(sizeof(Opening) == 16 && std::has_unique_object_representations_v<Opening>);

/// Nothing: it is no list of them.
inline std::optional<std::vector<Opening>> ReadOpenings(std::string_view stored) {
  if (stored.size() % sizeof(Opening) != 0) return std::nullopt;
  std::vector<Opening> openings(stored.size() / sizeof(Opening));
  if (!stored.empty()) std::memcpy(openings.data(), stored.data(), stored.size());
  return openings;
}

}  // namespace remora
