#include "store/durable/tier_log/group_builder.h"

#include <cstddef>

#include "store/base/check.h"

namespace remora {
namespace {

// Number of entries whose memory the next group may use again.
constexpr std::size_t kKeptEntries = 4096;

}  // namespace

void GroupBuilder::Put(std::string_view key, const StoredHeader& header, std::string_view value) {
  entries_.push_back({.kind = LogEntryKind::kPut,
                      .version = header.version,
                      .expiry_ms = header.expiry_ms,
                      .key = key,
                      .value = value});
}

void GroupBuilder::Delete(std::string_view key, std::uint64_t version, std::uint64_t mark) {
  entries_.push_back(
      {.kind = LogEntryKind::kDelete, .version = version, .expiry_ms = mark, .key = own_.emplace_back(key)});
  has_delete_ = true;
}

void GroupBuilder::PutMeta(std::string_view key, std::string_view value) {
  const std::string_view own_key = own_.emplace_back(key);
  entries_.push_back({.kind = LogEntryKind::kMeta, .key = own_key, .value = own_.emplace_back(value)});
}

void GroupBuilder::PutCompletion(const RequestId& request, std::uint64_t version, std::int64_t result) {
  REMORA_CHECK(!entries_.empty() && entries_.back().version == version);
  entries_.back().request = request;
  entries_.back().result = result;
}

void GroupBuilder::Add(const LogEntry& entry) {
  entries_.push_back(entry);
  if (entry.kind == LogEntryKind::kDelete) has_delete_ = true;
}

void GroupBuilder::DeleteClient(std::uint64_t client) {
  PutMeta(ClientKey(client), {});
  for (std::uint64_t number = 0; number < kCompletionsPerClient; ++number) {
    PutMeta(CompletionKey({client, number}), {});
  }
}

void GroupBuilder::Clear() {
  if (entries_.capacity() > kKeptEntries) {
    entries_ = {};
  } else {
    entries_.clear();
  }
  if (!own_.empty()) own_.clear();
  has_delete_ = false;
}

}  // namespace remora
