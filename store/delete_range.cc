#include "store/delete_range.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/format/expiry.h"
#include "store/format/scan_range.h"
#include "store/store_impl.h"

namespace remora {
namespace {

// Of one step: about half a millisecond.
constexpr std::size_t kMaxKeys = 256;
constexpr std::size_t kMaxLooks = 1024;  // at entries, or at buckets of the index

}  // namespace

// Where the keys come from: the durable tier, as of one moment; where there is none, the index, bucket by
// bucket. As the index grows, entries go to buckets with higher numbers only, so none is passed over.
struct RangeDeletion::Rep {
  Store& store;
  Store::Impl& impl;
  const ScanRange range;
  const std::uint64_t versions_end;                   // of all writes before it
  const std::unique_ptr<DurableTier::Cursor> cursor;  // null: there is no tier
  std::uint64_t next_bucket = 0;
  bool all_found = false;

  std::vector<Store::Impl::VersionedKey> keys;  // found, and not deleted yet
  std::vector<Write> writes;
  std::uint64_t ticket = 0;  // of the last delete that waits for the disk; 0: none does
  std::uint64_t waiting = 0;

  absl::Status Find() {
    keys.clear();
    if (cursor == nullptr) {
      all_found = !impl.FindInIndex(range, versions_end, kMaxKeys, kMaxLooks, &next_bucket, &keys);
      return absl::OkStatus();
    }
    for (std::size_t looks = 0; looks < kMaxLooks && keys.size() < kMaxKeys; ++looks) {
      if (!cursor->Next()) {
        all_found = true;
        return cursor->status();
      }
      const DurableTier::Entry& entry = cursor->entry();
      keys.push_back({std::string(entry.key), entry.header.version});
    }
    return absl::OkStatus();
  }
};

RangeDeletion::RangeDeletion(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
RangeDeletion::~RangeDeletion() = default;

absl::StatusOr<bool> RangeDeletion::Step() { return Delete(/*wait=*/true); }
absl::StatusOr<bool> RangeDeletion::StepWithoutWaiting() { return Delete(/*wait=*/false); }

absl::StatusOr<bool> RangeDeletion::Delete(bool wait) {
  if (rep_->ticket != 0) {
    REMORA_RETURN_IF_ERROR(rep_->impl.Ended(rep_->ticket));
    deleted_ += std::exchange(rep_->waiting, 0);
    rep_->ticket = 0;
  }
  if (rep_->keys.empty()) {
    if (rep_->all_found) return false;
    REMORA_RETURN_IF_ERROR(rep_->Find());
  }
  rep_->writes.clear();
  for (const Store::Impl::VersionedKey& key : rep_->keys) {
    Write& write = rep_->writes.emplace_back();
    write.kind = Write::Kind::kDelete;
    write.key = key.key;
    write.condition = Condition::Version(key.version);
  }
  wait ? rep_->store.Commit(rep_->writes) : rep_->store.Submit(rep_->writes);
  std::size_t done = 0;
  absl::Status failed;
  for (const Write& write : rep_->writes) {
    if (absl::IsAborted(write.status)) {  // and so are all behind it
      failed = write.status;
      break;
    }
    ++done;
    if (write.ticket != 0) {
      ++rep_->waiting;
      rep_->ticket = write.ticket;
      continue;
    }
    if (write.status.ok()) ++deleted_;
    // Gone, or its time is over, or written again meanwhile: not ours to delete.
    const bool is_no_longer_it = absl::IsNotFound(write.status) || absl::IsFailedPrecondition(write.status);
    if (!write.status.ok() && !is_no_longer_it) failed = write.status;
  }
  rep_->keys.erase(rep_->keys.begin(), rep_->keys.begin() + static_cast<std::ptrdiff_t>(done));
  REMORA_RETURN_IF_ERROR(failed);
  return rep_->ticket != 0 || !rep_->all_found;
}

// --- Finding them in the index --------------------------------------------------------------------------

bool Store::Impl::FindInIndex(const ScanRange& range, std::uint64_t versions_end, std::size_t max_keys,
                              std::size_t max_buckets, std::uint64_t* next_bucket,
                              std::vector<VersionedKey>* keys) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < max_buckets && keys->size() < max_keys; ++i, ++*next_bucket) {
    if (*next_bucket >= index_.bucket_count()) return false;
    BucketRef ref{.overflow = false, .number = *next_bucket};
    for (Bucket bucket;; ref = {.overflow = true, .number = ControlLink(bucket.control)}) {
      index_.Copy(ref, &bucket);
      for (const std::uint64_t word : bucket.slots) {
        if (word == 0 || SlotIsCold(word)) continue;
        // A slot that rests names a record that is dead, or one that another slot names, too.
        const Place place = Place::Of(DecodeSlot(word));
        if (!log_.IsLive(place) || !range.Contains(log_.Key(place))) continue;
        const std::uint64_t version = log_.Header(place).version_live >> 1;
        if (version < versions_end) keys->push_back({std::string(log_.Key(place)), version});
      }
      if (ControlLink(bucket.control) == 0) break;
    }
  }
  return true;
}

std::uint64_t Store::Impl::versions_end() const {
  const std::lock_guard lock(mutex_);
  return next_version_;
}

// --- The public face ------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<RangeDeletion>> Store::BeginDeleteRange(const RangeOptions& options) {
  ScanRange range;
  if (const char* why = ResolveRange(options, &range)) return absl::InvalidArgumentError(why);
  std::unique_ptr<DurableTier::Cursor> cursor;
  if (impl_->has_tier()) {
    REMORA_ASSIGN_OR_RETURN(cursor, impl_->NewCursor(range));
  }
  const std::uint64_t versions_end = impl_->versions_end();
  return std::unique_ptr<RangeDeletion>(
      new RangeDeletion(std::unique_ptr<RangeDeletion::Rep>(new RangeDeletion::Rep{
          *this, *impl_, std::move(range), versions_end, std::move(cursor), 0, false, {}, {}, 0, 0})));
}

absl::StatusOr<std::uint64_t> Store::DeleteRange(const RangeOptions& options) {
  ScanRange range;
  if (const char* why = ResolveDelete(options, &range)) return absl::InvalidArgumentError(why);
  return DeleteInTheEnd(options);
}

absl::StatusOr<std::uint64_t> Store::DropAll() { return DeleteInTheEnd({}); }

absl::StatusOr<std::uint64_t> Store::DeleteInTheEnd(const RangeOptions& range) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<RangeDeletion> deletion, BeginDeleteRange(range));
  for (;;) {
    const absl::StatusOr<bool> more = deletion->Step();
    if (absl::IsAborted(more.status())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    REMORA_RETURN_IF_ERROR(more.status());
    if (!*more) return deletion->deleted();
  }
}

}  // namespace remora
