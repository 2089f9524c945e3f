// A write on its way through the pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "store/index/index.h"
#include "store/region/value_log.h"
#include "store/store.h"

namespace remora {

/// Writes of one group at most: what is done between two groups, growth above all, must not fall behind.
inline constexpr std::size_t kMaxGroup = 1024;

/// Returns the error of a write whose bytes Write::verify refuses.
inline absl::Status DamagedError() {
  return absl::DataLossError(
      "what was sent was damaged on its way: key and value do not match their checksum; nothing was done");
}

/// Returns the error of a write that the durable tier did not take.
inline absl::Status NotDurableError(const absl::Status& why) {
  return absl::UnavailableError(std::string(why.message()) +
                                " (this write is not visible; whether a restart shows it is unknown)");
}

/// What a key's record is, as of all writes staged before.
struct KnownRecord {
  std::optional<Place> place{};  // in memory
  bool cold = false;             // in the durable tier only: the key has a cold entry
  bool unloaded = false;         // the same, and the index may not know it
  std::uint64_t expiry_ms = 0;
  std::uint64_t version = 0;
  bool unsynced = false;  // by a write that is to be synced
  // What the look-up found: where the index has it, if anywhere, until this group's writes of the same key.
  bool is_looked_up = false;
  std::optional<Index::Entry> entry{};
};

/// A write of the group that is being committed, once nothing but the durable tier can fail it.
struct StagedWrite {
  Write* write = nullptr;
  // But for kPut, whose are in the log: the private copies of the key, and behind it of what is added.
  std::string own;
  std::string_view key;  // the private copy
  std::uint64_t key_hash = 0;
  // kPut: the private copy. kIncrement, kAppend: that of what is added, until it is applied. Then: in the
  // log.
  std::string_view value;
  std::uint64_t value_hash = 0;
  Place place;          // but for kDelete
  bool synced = false;  // it is to be
  bool pinned = false;  // ValueLog::Pin
  KnownRecord old;      // until this write
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;

  bool is_delete() const { return write->kind == Write::Kind::kDelete; }
};

}  // namespace remora
