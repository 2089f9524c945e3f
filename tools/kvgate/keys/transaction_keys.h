// The keys within a transaction: as they were when it read them first, and as it has changed them since.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "store/base/clock.h"
#include "tools/kvgate/keys/key_store.h"
#include "tools/kvgate/keys/transaction.h"

namespace remora::kvgate {

/// Runs commands against a private copy of the keys that they name. Commit then writes all changes in one
/// batch, under the condition that every key is as it was read.
///
/// Invariants:
///   T1: each key that was read, also one that does not exist, has the same version at the one moment at
///       which the server decides the batch.
///   T2: a read of a key sees the last write of the transaction to it.
///   T3: a key is read from the server once. If a second read is needed for its value, it has to find the
///       same version.
///
/// The class has more than 25 methods, because it has one for each operation of a key store.
///
/// Thread safety: none. Tasks of one command may run beside each other.
class TransactionKeys final : public KeyStore {
 public:
  /// Bound of the values that it holds.
  static constexpr std::size_t kMaxBytes = std::size_t{128} << 20;

  /// All arguments live longer.
  TransactionKeys(KeyStore& server, const WatchedKeys& watched, const Clock& clock)
      : server_(server), watched_(watched), clock_(clock) {}

  Task<absl::StatusOr<std::string>> Get(std::string_view key) override;
  Task<absl::StatusOr<KeyRecord>> GetRecord(std::string_view key) override;
  Task<absl::StatusOr<KeyExpiry>> GetExpiry(std::string_view key) override;
  Task<absl::StatusOr<bool>> Exists(std::string_view key) override;
  Task<absl::Status> Put(std::string_view key, std::string_view value, PutOptions options) override;
  Task<absl::Status> Delete(std::string_view key, WriteOptions options) override;
  Task<absl::Status> Touch(std::string_view key, std::chrono::milliseconds ttl,
                           WriteOptions options) override;
  Task<absl::StatusOr<std::int64_t>> Increment(std::string_view key, std::int64_t delta) override;
  Task<absl::StatusOr<std::size_t>> Append(std::string_view key, std::string_view bytes) override;
  Task<absl::Status> Apply(const WriteBatch& batch) override;
  bool is_connected(std::string_view key) const override { return server_.is_connected(key); }

  /// Returns why the commands saw no keys of one moment, so that their replies are void:
  ///   Aborted: another client has changed a key meanwhile.
  ///   ResourceExhausted: the values have too many bytes.
  ///   Others: the server could not be read.
  const absl::Status& failure() const { return failure_; }
  std::size_t bytes() const { return bytes_; }

  /// Does all changes or none. REQUIRES: failure() is OK. Outcomes:
  ///   Aborted: another client has changed a key; nothing was done.
  ///   InvalidArgument: the changes do not fit into a batch; nothing was done.
  ///   Others: those of the client's Apply.
  Task<absl::Status> Commit();
  /// Returns whether all watched keys are as they were.
  Task<absl::StatusOr<bool>> HoldsWatched();

 private:
  struct Entry {
    // As the server had it. No version: it does not exist.
    bool is_read = false;
    std::optional<std::uint64_t> version{};
    // As it is now.
    bool is_written = false;
    bool exists = false;
    bool has_value = false;
    std::string value{};
    std::uint64_t expiry_ms = 0;
    std::optional<std::chrono::milliseconds> ttl{};  // is_written: of the Put
  };

  /// Makes sure that the entry has what a command needs. A key that no store has does not exist.
  Task<absl::StatusOr<Entry*>> Load(std::string_view key, bool with_value);
  void NoteRead(std::string_view key, Entry& entry, const std::optional<KeyExpiry>& found,
                std::string* value);
  absl::Status Fail(const absl::Status& status);
  /// Loads the key if the condition, or `must_exist`, asks for that, and decides.
  Task<absl::StatusOr<Entry*>> LoadFor(std::string_view key, Condition condition, bool must_exist,
                                       bool with_value);
  void SetValue(Entry& entry, std::string value);
  absl::Status SetTtl(Entry& entry, std::optional<std::chrono::milliseconds> ttl);
  void KeepTtl(Entry& entry) const;
  /// Returns the condition under which the transaction may change, or has read, the key. None: it has not.
  Condition Required(std::string_view key, const Entry* entry) const;
  /// Fills the batch. Returns how many writes it has, without the checks.
  std::size_t AddWrites(WriteBatch* batch) const;
  std::size_t AddChecks(WriteBatch* batch) const;
  Task<absl::Status> WriteOne(const std::string& key, const Entry& entry);

  KeyStore& server_;
  const WatchedKeys& watched_;
  const Clock& clock_;
  std::map<std::string, Entry, std::less<>> entries_;  // which stay where they are
  std::size_t bytes_ = 0;
  absl::Status failure_;
};

}  // namespace remora::kvgate
