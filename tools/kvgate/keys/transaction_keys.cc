#include "tools/kvgate/keys/transaction_keys.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/format/memory/layout.h"
#include "store/format/types/bounds.h"
#include "store/format/types/expiry.h"
#include "tools/kvgate/commands/store_calls.h"

namespace remora::kvgate {
namespace {

// Version of a key that the transaction itself has written. No other client can change it.
constexpr std::uint64_t kOwnVersion = 1;

absl::Status NoSuchKey() { return absl::NotFoundError("no such key"); }

absl::Status Overtaken() {
  return absl::AbortedError("exec: another client has changed a key meanwhile; try again");
}

Condition StillAt(const std::optional<std::uint64_t>& version) {
  return version ? Condition::Version(*version) : Condition::Absent();
}

/// Reads a number as the server does for an increment.
std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return number;
}

}  // namespace

// --- Reads ----------------------------------------------------------------------------------------------

Task<absl::StatusOr<TransactionKeys::Entry*>> TransactionKeys::Load(std::string_view key, bool with_value) {
  static Entry absent{.is_read = true};
  if (!IsKey(key)) co_return &absent;
  const auto found = entries_.find(key);
  Entry& entry = found != entries_.end() ? found->second : entries_[std::string(key)];
  const bool is_known =
      entry.is_written || (entry.is_read && (!with_value || !entry.exists || entry.has_value));
  if (is_known) co_return &entry;
  if (with_value) {
    absl::StatusOr<std::optional<KeyRecord>> record = co_await FindRecord(server_, key);
    if (!record.ok()) co_return Fail(record.status());
    std::optional<KeyExpiry> expiry;
    if (*record) expiry = KeyExpiry{(*record)->version, (*record)->expiry_ms, {}};
    NoteRead(key, entry, expiry, *record ? &(*record)->value : nullptr);
  } else {
    const absl::StatusOr<std::optional<KeyExpiry>> expiry = co_await FindExpiry(server_, key);
    if (!expiry.ok()) co_return Fail(expiry.status());
    NoteRead(key, entry, *expiry, nullptr);
  }
  if (!failure_.ok()) co_return failure_;
  co_return &entry;
}

void TransactionKeys::NoteRead(std::string_view key, Entry& entry, const std::optional<KeyExpiry>& found,
                               std::string* value) {
  const std::optional<std::uint64_t> version = found ? std::optional(found->version) : std::nullopt;
  const auto watched = watched_.find(key);
  const bool has_changed = (entry.is_read && entry.version != version) ||
                           (watched != watched_.end() && watched->second != version);
  if (has_changed) {
    Fail(Overtaken()).IgnoreError();
    return;
  }
  const bool is_first = !std::exchange(entry.is_read, true);
  entry.version = version;
  if (entry.is_written) return;  // by a task beside this one
  if (is_first) {
    entry.exists = found.has_value();
    entry.expiry_ms = found ? found->expiry_ms : 0;
  }
  if (value != nullptr && !entry.has_value) SetValue(entry, std::move(*value));
}

absl::Status TransactionKeys::Fail(const absl::Status& status) {
  failure_.Update(status);
  return failure_;
}

Task<absl::StatusOr<KeyRecord>> TransactionKeys::GetRecord(std::string_view key) {
  const absl::StatusOr<Entry*> entry = co_await Load(key, true);
  if (!entry.ok()) co_return entry.status();
  if (!(*entry)->exists) co_return NoSuchKey();
  co_return KeyRecord{(*entry)->value, (*entry)->is_written ? kOwnVersion : *(*entry)->version,
                      (*entry)->expiry_ms};
}

Task<absl::StatusOr<std::string>> TransactionKeys::Get(std::string_view key) {
  const absl::StatusOr<Entry*> entry = co_await Load(key, true);
  if (!entry.ok()) co_return entry.status();
  if (!(*entry)->exists) co_return NoSuchKey();
  co_return (*entry)->value;
}

Task<absl::StatusOr<KeyExpiry>> TransactionKeys::GetExpiry(std::string_view key) {
  const absl::StatusOr<Entry*> loaded = co_await Load(key, false);
  if (!loaded.ok()) co_return loaded.status();
  const Entry& entry = **loaded;
  if (!entry.exists) co_return NoSuchKey();
  KeyExpiry expiry{entry.is_written ? kOwnVersion : *entry.version, entry.expiry_ms, {}};
  if (entry.expiry_ms != 0) {
    const auto left = static_cast<std::int64_t>(entry.expiry_ms) - clock_.UnixMillis();
    expiry.ttl = std::chrono::milliseconds(std::max<std::int64_t>(left, 0));
  }
  co_return expiry;
}

Task<absl::StatusOr<bool>> TransactionKeys::Exists(std::string_view key) {
  const absl::StatusOr<Entry*> entry = co_await Load(key, false);
  if (!entry.ok()) co_return entry.status();
  co_return (*entry)->exists;
}

// --- Writes ---------------------------------------------------------------------------------------------

Task<absl::StatusOr<TransactionKeys::Entry*>> TransactionKeys::LoadFor(std::string_view key,
                                                                       Condition condition, bool must_exist,
                                                                       bool with_value) {
  if (condition.is_none() && !must_exist && !with_value) {
    const auto found = entries_.find(key);
    co_return found != entries_.end() ? &found->second : &entries_[std::string(key)];
  }
  const absl::StatusOr<Entry*> entry = co_await Load(key, with_value);
  if (!entry.ok()) co_return entry.status();
  const bool exists = (*entry)->exists;
  if (condition == Condition::Absent()) {
    if (exists) co_return absl::AlreadyExistsError("the key exists");
  } else if (!exists && (must_exist || !condition.is_none())) {
    co_return NoSuchKey();
  }
  // A condition on a version is that of a command, which alone writes here.
  co_return entry;
}

void TransactionKeys::SetValue(Entry& entry, std::string value) {
  bytes_ += value.size();
  bytes_ -= entry.value.size();
  entry.value = std::move(value);
  entry.has_value = true;
  if (bytes_ > kMaxBytes) {
    Fail(absl::ResourceExhaustedError(
             absl::StrCat("its values have more than ", kMaxBytes, " bytes together")))
        .IgnoreError();
  }
}

absl::Status TransactionKeys::SetTtl(Entry& entry, std::optional<std::chrono::milliseconds> ttl) {
  const std::int64_t now_ms = clock_.UnixMillis();
  const std::uint64_t expiry_ms = ExpiryOf(now_ms, ttl.value_or(kNeverExpires));
  if (HasExpired(expiry_ms, now_ms)) return absl::OutOfRangeError("it is to expire at a moment that is over");
  entry.ttl = ttl;
  entry.expiry_ms = expiry_ms;
  return absl::OkStatus();
}

void TransactionKeys::KeepTtl(Entry& entry) const {
  if (entry.is_written && entry.exists) return;
  entry.ttl.reset();  // a new key: the store's default
  if (entry.exists) entry.ttl = entry.expiry_ms == 0 ? kNeverExpires : Until(entry.expiry_ms);
}

Task<absl::Status> TransactionKeys::Put(std::string_view key, std::string_view value, PutOptions options) {
  if (!IsKey(key)) co_return absl::InvalidArgumentError(NoKey(key.size()));
  const absl::StatusOr<Entry*> loaded = co_await LoadFor(key, options.condition, false, false);
  if (!loaded.ok()) co_return loaded.status();
  Entry& entry = **loaded;
  if (absl::Status status = SetTtl(entry, options.ttl); !status.ok()) co_return status;
  SetValue(entry, std::string(value));
  entry.is_written = true;
  entry.exists = true;
  co_return absl::OkStatus();
}

Task<absl::Status> TransactionKeys::Delete(std::string_view key, WriteOptions options) {
  const absl::StatusOr<Entry*> loaded = co_await LoadFor(key, options.condition, true, false);
  if (!loaded.ok()) co_return loaded.status();
  Entry& entry = **loaded;
  SetValue(entry, {});
  entry.is_written = true;
  entry.exists = false;
  entry.expiry_ms = 0;
  co_return absl::OkStatus();
}

Task<absl::Status> TransactionKeys::Touch(std::string_view key, std::chrono::milliseconds ttl,
                                          WriteOptions options) {
  // With the value: a batch puts all of a record.
  const absl::StatusOr<Entry*> loaded = co_await LoadFor(key, options.condition, true, true);
  if (!loaded.ok()) co_return loaded.status();
  if (absl::Status status = SetTtl(**loaded, ttl); !status.ok()) co_return status;
  (*loaded)->is_written = true;
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::int64_t>> TransactionKeys::Increment(std::string_view key, std::int64_t delta) {
  if (!IsKey(key)) co_return absl::InvalidArgumentError(NoKey(key.size()));
  const absl::StatusOr<Entry*> loaded = co_await LoadFor(key, {}, false, true);
  if (!loaded.ok()) co_return loaded.status();
  Entry& entry = **loaded;
  const std::optional<std::int64_t> number = entry.exists ? ParseNumber(entry.value) : 0;
  if (!number) {
    co_return absl::FailedPreconditionError("increment: the value is not a 64-bit number in decimal digits");
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, delta, &sum)) {
    co_return absl::OutOfRangeError("increment: the sum is not a 64-bit number");
  }
  KeepTtl(entry);
  SetValue(entry, absl::StrCat(sum));
  entry.is_written = true;
  entry.exists = true;
  co_return sum;
}

Task<absl::StatusOr<std::size_t>> TransactionKeys::Append(std::string_view key, std::string_view bytes) {
  if (!IsKey(key)) co_return absl::InvalidArgumentError(NoKey(key.size()));
  const absl::StatusOr<Entry*> loaded = co_await LoadFor(key, {}, false, true);
  if (!loaded.ok()) co_return loaded.status();
  Entry& entry = **loaded;
  const std::size_t size = (entry.exists ? entry.value.size() : 0) + bytes.size();
  if (size > kMaxSmallValueSize) {
    co_return absl::OutOfRangeError(absl::StrCat("append: the value would have ", size,
                                                 " bytes; a value that grows has ", kMaxSmallValueSize,
                                                 " at most"));
  }
  KeepTtl(entry);
  SetValue(entry, absl::StrCat(entry.exists ? entry.value : std::string(),
                               absl::string_view(bytes.data(), bytes.size())));
  entry.is_written = true;
  entry.exists = true;
  co_return size;
}

Task<absl::Status> TransactionKeys::Apply(const WriteBatch& batch) {
  // All conditions first. No batch of a command names a key twice under one.
  std::vector<BatchWrite> writes;
  std::string_view bytes = batch.bytes();
  while (!bytes.empty()) writes.push_back(TakeBatchWrite(&bytes).value());
  for (const BatchWrite& write : writes) {
    const absl::StatusOr<Entry*> entry = co_await LoadFor(write.key, Condition::Decode(write.entry.condition),
                                                          write.entry.kind == BatchKind::kDelete, false);
    if (!entry.ok()) co_return entry.status();
  }
  for (const BatchWrite& write : writes) {
    absl::Status done;
    if (write.entry.kind == BatchKind::kPut) {
      done = co_await Put(write.key, write.value, {.ttl = DecodeTtl(write.entry.ttl_ms)});
    } else {
      done = co_await Delete(write.key, {});
    }
    if (!done.ok()) co_return Fail(done);  // half of it is in the copy
  }
  co_return absl::OkStatus();
}

// --- Commit ---------------------------------------------------------------------------------------------

Condition TransactionKeys::Required(std::string_view key, const Entry* entry) const {
  if (entry != nullptr && entry->is_read) return StillAt(entry->version);
  const auto watched = watched_.find(key);
  return watched == watched_.end() ? Condition() : StillAt(watched->second);
}

std::size_t TransactionKeys::AddWrites(WriteBatch* batch) const {
  for (const auto& [key, entry] : entries_) {
    if (!entry.is_written) continue;
    const Condition condition = Required(key, &entry);
    if (entry.exists) {
      batch->Put(key, entry.value, {.ttl = entry.ttl, .condition = condition});
    } else if (entry.version) {
      batch->Delete(key, {.condition = condition});
    }
  }
  return batch->count();
}

std::size_t TransactionKeys::AddChecks(WriteBatch* batch) const {
  const std::size_t writes = batch->count();
  for (const auto& [key, entry] : entries_) {
    const bool is_absent = entry.is_written && !entry.exists && !entry.version;
    if (entry.is_read && (!entry.is_written || is_absent)) batch->Check(key, StillAt(entry.version));
  }
  for (const auto& [key, version] : watched_) {
    const auto found = entries_.find(key);
    const bool has = found != entries_.end() && (found->second.is_read || found->second.is_written);
    if (!has) batch->Check(key, StillAt(version));
  }
  return batch->count() - writes;
}

/// A single write has space for more than a batch.
Task<absl::Status> TransactionKeys::WriteOne(const std::string& key, const Entry& entry) {
  const Condition condition = Required(key, &entry);
  if (entry.exists) {
    co_return co_await server_.Put(key, entry.value, {.ttl = entry.ttl, .condition = condition});
  }
  co_return co_await server_.Delete(key, {.condition = condition});
}

Task<absl::Status> TransactionKeys::Commit() {
  for (auto& [key, entry] : entries_) {
    // The server rejects a batch that deletes a missing key.
    if (!entry.is_written || entry.exists || entry.is_read) continue;
    const absl::StatusOr<std::optional<KeyExpiry>> found = co_await FindExpiry(server_, key);
    if (!found.ok()) co_return found.status();
    NoteRead(key, entry, *found, nullptr);
  }
  if (!failure_.ok()) co_return failure_;
  WriteBatch batch;
  const std::size_t writes = AddWrites(&batch);
  const std::size_t checks = AddChecks(&batch);
  // One read has its moment by itself.
  if (writes == 0 && (checks == 0 || (checks == 1 && watched_.empty()))) co_return absl::OkStatus();
  absl::Status status;
  std::string_view key;  // all have the same server
  if (writes == 1 && checks == 0) {
    for (const auto& [name, entry] : entries_) {
      if (!entry.is_written) continue;
      key = name;
      status = co_await WriteOne(name, entry);
    }
  } else {
    if (const std::string fault = batch.fault(); !fault.empty()) co_return absl::InvalidArgumentError(fault);
    std::string_view bytes = batch.bytes();
    key = TakeBatchWrite(&bytes)->key;
    status = co_await server_.Apply(batch);
  }
  // A connection may fail with the same codes, and then nobody knows what was done.
  if (IsOvertaken(status) && is_connected(key)) co_return Overtaken();
  co_return status;
}

Task<absl::StatusOr<bool>> TransactionKeys::HoldsWatched() {
  for (const auto& [key, version] : watched_) {
    const absl::StatusOr<std::optional<KeyExpiry>> found = co_await FindExpiry(server_, key);
    if (!found.ok()) co_return found.status();
    if (version != (*found ? std::optional((*found)->version) : std::nullopt)) co_return false;
  }
  co_return true;
}

}  // namespace remora::kvgate
