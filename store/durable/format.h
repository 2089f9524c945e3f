// Formats of the data that the durable tier keeps in RocksDB (tier.h lists the keys), and functions
// that decode it. A disk or a person may have changed the data, so these functions reject sizes and
// values that are out of bounds.
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

/// Precedes each value on disk.
struct StoredHeader {
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // 0: never
};
static_assert(sizeof(StoredHeader) == 16 && offsetof(StoredHeader, expiry_ms) == 8);
static_assert(std::has_unique_object_representations_v<StoredHeader>);

/// A key, its header and its value. The function that hands out the entry owns the bytes.
struct StoredEntry {
  std::string_view key{};
  StoredHeader header{};
  std::string_view value{};
};

/// Returns whether the sizes of a key and of its stored bytes (header and value) are in bounds.
inline bool IsEntrySized(std::string_view key, std::string_view stored) {
  return key.size() >= kMinKeySize && key.size() <= kMaxKeySize && stored.size() >= sizeof(StoredHeader) &&
         stored.size() - sizeof(StoredHeader) <= kMaxValueSize;
}

/// Decodes an entry into *entry. Returns false if a size is out of bounds, or if the version is 0 or
/// not below the limit.
inline bool ReadEntry(std::string_view key, std::string_view stored, std::uint64_t version_limit,
                      StoredEntry* entry) {
  if (!IsEntrySized(key, stored)) return false;
  std::memcpy(&entry->header, stored.data(), sizeof(entry->header));
  entry->key = key;
  entry->value = stored.substr(sizeof(StoredHeader));
  return entry->header.version != 0 && entry->header.version < version_limit;
}

/// Key of the version limit in the meta family.
inline constexpr char kVersionLimitKey[] = "version_limit";

/// Decodes the version limit. Returns nullopt if no store wrote these bytes.
inline std::optional<std::uint64_t> ReadVersionLimit(std::string_view stored) {
  std::uint64_t limit = 0;
  if (stored.size() != sizeof(limit)) return std::nullopt;
  std::memcpy(&limit, stored.data(), sizeof(limit));
  if (limit == 0 || limit > kMaxVersion) return std::nullopt;
  return limit;
}

inline constexpr std::string_view kClientPrefix = "client";

/// Returns the key of a client in the meta family. It fits into a std::string without allocation.
inline std::string ClientKey(std::uint64_t client) {
  std::string key(kClientPrefix);
  return key.append(reinterpret_cast<const char*>(&client), sizeof(client));
}
/// Returns the key of a completion record: the key of its client and one more byte. So it sorts behind
/// its client.
inline std::string CompletionKey(const RequestId& request) {
  return ClientKey(request.client) + static_cast<char>(request.number % kCompletionsPerClient);
}

/// Decodes a client or one of its completion records, and adds it to `clients`. The caller passes the
/// entries in the order of their keys: each client, then its records. `key` is without kClientPrefix. Returns
/// false if a size is wrong.
inline bool ReadCompletion(std::string_view key, std::string_view stored,
                           std::vector<ClientCompletions>* clients) {
  std::uint64_t client = 0;
  const bool is_completion = key.size() == sizeof(client) + 1;
  if (!is_completion && key.size() != sizeof(client)) return false;
  if (stored.size() != (is_completion ? sizeof(CompletionRecord) : sizeof(ClientCompletions::since_ms)))
    return false;
  std::memcpy(&client, key.data(), sizeof(client));
  if (!is_completion) {
    clients->push_back({.client = client});
    std::memcpy(&clients->back().since_ms, stored.data(), stored.size());
  } else if (!clients->empty() &&
             clients->back().client == client) {  // else R1 of completion_records.h failed
    std::memcpy(&clients->back().completions.emplace_back(), stored.data(), stored.size());
  }
  return true;
}

/// An opening of the data directory: its incarnation, and the sequence of the last write that it
/// found. The directory remembers the last kOpenings of them, oldest first.
struct Opening {
  std::uint64_t incarnation = 0;
  std::uint64_t found = 0;
};
inline constexpr std::size_t kOpenings = 1024;
static_assert(sizeof(Opening) == 16 && std::has_unique_object_representations_v<Opening>);

/// Decodes a list of openings. Returns nullopt if the size is wrong.
inline std::optional<std::vector<Opening>> ReadOpenings(std::string_view stored) {
  if (stored.size() % sizeof(Opening) != 0) return std::nullopt;
  std::vector<Opening> openings(stored.size() / sizeof(Opening));
  if (!stored.empty()) std::memcpy(openings.data(), stored.data(), stored.size());
  return openings;
}

}  // namespace remora
