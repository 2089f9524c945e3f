// One write, as the parts of a store and its server hand it on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "store/durable/completion_records.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"

namespace remora {

struct ColdRead;

/// Space for a large record, which the store lends until the caller commits it or gives it back.
///
/// Ownership: the caller may fill `bytes` with the key and, behind it, the value, and may let others do so.
/// All of them must have lost write access before the caller commits: the bytes become the record in place.
struct Reservation {
  std::span<std::byte> bytes;
  std::size_t key_size = 0;
  /// Hash of the value, if the caller computed it while it filled `bytes` and nobody else had write access.
  std::optional<std::uint64_t> value_hash{};
};

/// One write of a group. The bytes that it points to must stay unchanged until Commit or Submit returns.
struct Write {
  enum class Kind : std::uint8_t {
    kPut = 1,
    kDelete = 2,
    kTouch = 3,
    kIncrement = 4,
    kAppend = 5,
    kCheck = 6
  };

  Kind kind = Kind::kPut;
  std::string_view key;
  /// kPut: the value. kIncrement: the number to add, as the bytes of a std::int64_t. kAppend: the bytes to
  /// append.
  std::string_view value;
  /// kPut: space that already contains key and value; the store ignores `key` and `value`. Each outcome but
  /// Aborted uses it up.
  const Reservation* reserved = nullptr;
  /// Time to live of the record, for all kinds but kDelete. Unset: StoreOptions::default_ttl; kIncrement and
  /// kAppend to an existing value keep its expiry.
  std::optional<std::chrono::milliseconds> ttl{};
  Condition condition{};
  std::optional<Durability> durability{};  // as in PutOptions; the first write's is that of its batch
  /// Joins this write and the next one of the span to a batch, whose last write has false here. The store
  /// does all writes of a batch or none. A batch has consecutive versions, and one outcome: that of the first
  /// write that cannot be done. It consists of kPut without `reserved`, and kDelete, and behind them of
  /// kCheck, up to kMaxBatchWrites and kMaxBatchBytes; otherwise it ends with InvalidArgument. A kCheck
  /// writes nothing and gets no version; it stands in batches alone.
  bool continues_batch = false;
  /// Marks the first write of a batch, even if it is the only one. A failed outcome then names the number of
  /// the write that failed.
  bool begins_batch = false;
  /// Request of the completion record, if there is to be one. The first write's is that of its batch.
  RequestId request{};

  /// If set, the store calls this with the hashes of its private copy of key and value, before anything else
  /// sees that copy. It is for bytes that another process may still be writing. If it returns false, the
  /// write ends with DataLoss. (A plain pointer and not a std::function: this is the PUT path.)
  bool (*verify)(const void* context, std::uint64_t key_hash, std::uint64_t value_hash) = nullptr;
  const void* verify_context = nullptr;

  /// False: the caller does not wait for the disk to read. A write that depends on a record that is neither
  /// in memory nor in `read` then ends with Aborted and `needs_read`; nothing of it was done. All writes of a
  /// batch have the same value.
  bool may_read = true;
  /// Result of a read that ServerStore::BeginReads began for this write. Null: none.
  const ColdRead* read = nullptr;
  /// Sender of the write. If a write needs a read, all later writes of its sender in the same group are
  /// Aborted, too. Writes of other senders are done.
  const void* sender = nullptr;

  // Outcome, set by Commit.
  /// Outcome: as for Store::Put, Delete, Touch, Increment and Append, and:
  ///   DataLoss: `verify` returned false.
  ///   Aborted: there is no space now, but retired memory will be free: commit again later
  ///   (Store::next_maintenance).
  absl::Status status;
  bool needs_read = false;    // if Aborted: see may_read. In a batch, at least one write has it
  std::uint64_t version = 0;  // if OK: greater than those of all earlier writes, also before restarts
  std::uint64_t slot = 0;     // if OK, for all kinds but kDelete: the record's location (EncodeSlot)
  std::int64_t result = 0;    // if OK: the sum of kIncrement, the value's new size of kAppend
  /// Number of a pending write, set by Submit. Unless it is 0, the outcome is not known yet, and the fields
  /// above are not valid. The write is in the durable tier, and becomes visible when the disk has it. (If a
  /// pending write made this one fail, it ends together with that one.) TakeSynced then returns the outcome
  /// with this ticket. A batch has one outcome, with the ticket of its first write.
  std::uint64_t ticket = 0;
};

/// Returns a write with these options, except PutOptions::version: the caller copies the version there.
Write MakeWrite(Write::Kind kind, std::string_view key, std::string_view value, const PutOptions& options);

/// Outcome of a write that was pending.
struct SyncedWrite {
  std::uint64_t ticket = 0;
  absl::Status status;  // as Write::status
  std::uint64_t version = 0;
  std::uint64_t slot = 0;
  std::int64_t result = 0;
};

/// Appends a write of a batch or a list to `writes` and returns it. The caller sets continues_batch.
Write& AddWrite(const BatchWrite& write, std::vector<Write>* writes);

}  // namespace remora
