// PUT and DELETE: a group of writes, from the caller's bytes to what readers see.
//
//   Stage           each: check, copy, verify the copy, decide, make sure of room
//   AssignVersions  in order
//   MakeDurable     one write for the group; the last thing that can fail
//   Publish         each, in order
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/format/lookup.h"
#include "store/format/record.h"
#include "store/store_impl.h"

namespace remora {
namespace {

// Versions are reserved on disk in blocks: a restart goes on behind the block, so none comes twice.
constexpr std::uint64_t kVersionBlock = std::uint64_t{1} << 20;

absl::Status CheckSizes(const Write& write) {
  const std::size_t key_size = write.key.size();
  const std::size_t value_size = write.kind == Write::Kind::kPut ? write.value.size() : 0;
  if (key_size < kMinKeySize || key_size > kMaxKeySize || value_size > kMaxValueSize) {
    return absl::InvalidArgumentError(absl::StrCat("a key has ", kMinKeySize, " to ", kMaxKeySize,
                                                   " bytes and a value up to ", kMaxValueSize, ", not ",
                                                   key_size, " and ", value_size));
  }
  return absl::OkStatus();
}

}  // namespace

void Store::Impl::Commit(std::span<Write> writes) {
  const std::lock_guard lock(mutex_);
  const ValueLog::Mark mark = log_.mark();
  staged_.clear();
  staged_.reserve(writes.size());  // views into its elements must stay good
  group_keys_.clear();
  group_growth_.clear();

  for (Write& write : writes) write.status = Stage(write);
  if (staged_.empty()) return;
  AssignVersions();
  if (const absl::Status durable = MakeDurable(); !durable.ok()) return Abandon(mark, durable);
  for (const Staged& staged : staged_) Publish(staged);

  Add(Counter::kCommitGroups, 1);
  Set(Counter::kLastVersion, next_version_ - 1);
  SetSizeCounters();
}

// --- Stage ----------------------------------------------------------------------------------------------

absl::Status Store::Impl::Stage(Write& write) {
  REMORA_RETURN_IF_ERROR(CheckSizes(write));
  const ValueLog::Mark mark = log_.mark();
  Staged& staged = staged_.emplace_back();
  staged.write = &write;
  absl::Status status = CopyAndVerify(staged);
  if (status.ok()) status = Decide(staged);
  if (!status.ok()) {
    staged_.pop_back();
    log_.GiveBack(mark);
  }
  return status;
}

// The caller's bytes are read once, into the copy. Everything after looks at the copy only: whoever shares
// the original with us may change it at any moment.
absl::Status Store::Impl::CopyAndVerify(Staged& staged) {
  const Write& write = *staged.write;
  if (write.kind == Write::Kind::kPut) {
    const std::optional<Place> place = log_.Append(write.key, write.value);
    if (!place) return LogFull();
    staged.place = *place;
    staged.key = log_.Key(*place, write.key.size());
    staged.value = log_.Value(*place, write.key.size(), write.value.size());
  } else {
    staged.deleted_key = write.key;
    staged.key = staged.deleted_key;
  }
  staged.key_hash = HashKey(staged.key);
  staged.value_hash = HashValue(staged.value.data(), staged.value.size());
  if (write.verify != nullptr && !write.verify(write.verify_context, staged.key_hash, staged.value_hash)) {
    return absl::DataLossError("key and value do not match their checksum; nothing was done");
  }
  return absl::OkStatus();
}

absl::Status Store::Impl::Decide(const Staged& staged) {
  const auto earlier = group_keys_.find(staged.key);
  const bool exists =
      earlier != group_keys_.end() ? earlier->second : index_.Find(staged.key, staged.key_hash).has_value();
  const bool will_exist = staged.write->kind == Write::Kind::kPut;
  if (!exists && !will_exist) return absl::NotFoundError("no such key");

  if (exists != will_exist) {
    std::int64_t& growth = group_growth_[MainBucket(staged.key_hash, shape_.bucket_count)];
    if (will_exist &&
        !index_.Reserve(staged.key_hash, static_cast<std::size_t>(std::max<std::int64_t>(growth + 1, 0)))) {
      return IndexFull();
    }
    growth += will_exist ? 1 : -1;
  }
  group_keys_[staged.key] = will_exist;
  return absl::OkStatus();
}

absl::Status Store::Impl::LogFull() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("the log is full: of ", log_.bytes(), " bytes, ", log_.bytes_used(), " are used, ",
                   log_.bytes_dead(), " of them dead; open with more memory (--memory)",
                   tier_ != nullptr ? ", or restart, which drops the dead" : ""));
}

absl::Status Store::Impl::IndexFull() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("the index is full: ", Read(Counter::kKeys), " keys, and all ", index_.overflow_count(),
                   " overflow buckets in use; open with more memory (--memory)"));
}

// --- AssignVersions, MakeDurable ------------------------------------------------------------------------

void Store::Impl::AssignVersions() {
  for (Staged& staged : staged_) {
    staged.version = next_version_++;
    if (staged.write->kind != Write::Kind::kPut) continue;
    log_.Seal(staged.place, staged.key.size(), staged.value.size(), staged.version, staged.key_hash,
              staged.value_hash);
  }
  REMORA_CHECK(next_version_ < kMaxVersion);
}

absl::Status Store::Impl::MakeDurable() {
  if (tier_ == nullptr) return absl::OkStatus();
  for (const Staged& staged : staged_) {
    if (staged.write->kind == Write::Kind::kPut) {
      tier_->Put(staged.key, {.version = staged.version}, staged.value);
    } else {
      tier_->Delete(staged.key);
    }
  }
  if (next_version_ > tier_->version_limit()) tier_->SetVersionLimit(next_version_ + kVersionBlock);
  return tier_->Write();
}

// The group's versions stay used: it may be on disk after all.
void Store::Impl::Abandon(const ValueLog::Mark& mark, const absl::Status& why) {
  const absl::Status status = absl::UnavailableError(
      absl::StrCat(why.message(), " (this write is not visible; whether a restart shows it is unknown)"));
  for (const Staged& staged : staged_) staged.write->status = status;
  log_.GiveBack(mark);
}

// --- Publish --------------------------------------------------------------------------------------------

void Store::Impl::Publish(const Staged& staged) {
  const std::optional<Index::Entry> entry = index_.Find(staged.key, staged.key_hash);
  // I5: the old record is dead before the slot leads elsewhere. Only then does the new one live, so that at
  // each moment a key has at most one live record.
  if (entry) log_.Kill(entry->place);

  if (staged.write->kind == Write::Kind::kDelete) {
    REMORA_CHECK(entry.has_value());  // Decide said so
    index_.Erase(*entry);
    Add(Counter::kKeys, -1);
    Add(Counter::kDeletes, 1);
  } else {
    log_.MakeLive(staged.place);
    if (entry) {
      index_.Replace(*entry, staged.place);
    } else {
      index_.Insert(staged.key_hash, staged.place);
      Add(Counter::kKeys, 1);
    }
    Add(Counter::kPuts, 1);
    staged.write->slot =
        EncodeSlot({Fingerprint(staged.key_hash), staged.place.extent_code, staged.place.offset_units});
  }
  staged.write->version = staged.version;
}

}  // namespace remora
