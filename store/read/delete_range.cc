#include "store/delete_range.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"
#include "store/format/types/expiry.h"
#include "store/format/types/scan_range.h"

namespace remora {
namespace {

// Of one step: about half a millisecond.
constexpr std::size_t kMaxKeys = 256;
constexpr std::size_t kMaxLooks = 1024;   // at entries of the durable tier
constexpr std::size_t kMaxBuckets = 256;  // of the index

}  // namespace

// Where the keys come from: the durable tier, as of one moment; where there is none, the index.
struct RangeDeletion::Rep {
  Store& store;
  Store::Impl& impl;
  const ScanRange range;
  const std::uint64_t versions_end;                   // of all writes before it
  const std::unique_ptr<DurableTier::Cursor> cursor;  // null: there is no tier
  Store::Impl::IndexWalk walk;
  bool all_found = false;

  std::vector<Store::Impl::VersionedKey> keys;  // found, and not deleted yet
  std::vector<Write> writes;
  std::uint64_t ticket = 0;  // of the last delete that waits for the disk; 0: none does
  std::uint64_t waiting = 0;

  absl::Status Find() {
    keys.clear();
    if (cursor == nullptr) {
      const auto is_later = [&](const auto& key) { return key.version >= versions_end; };
      for (std::size_t i = 0; i < kMaxBuckets && keys.size() < kMaxKeys && !walk.over; ++i) {
        const auto before = static_cast<std::ptrdiff_t>(keys.size());
        impl.WalkIndex(range, &walk, &keys);
        keys.erase(std::remove_if(keys.begin() + before, keys.end(), is_later), keys.end());
      }
      all_found = walk.over;
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

std::uint64_t Store::Impl::versions_end() const {
  const std::lock_guard lock(core_.mutex);
  return core_.next_version;
}

// --- The public face ------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<RangeDeletion>> Store::BeginDeleteRange(const RangeOptions& options) {
  ScanRange range;
  if (const char* why = ResolveRange(options, &range)) return absl::InvalidArgumentError(why);
  std::unique_ptr<DurableTier::Cursor> cursor;
  if (impl_->core().has_tier()) {
    REMORA_ASSIGN_OR_RETURN(cursor, impl_->NewCursor(range));
  }
  const std::uint64_t versions_end = impl_->versions_end();
  return std::unique_ptr<RangeDeletion>(
      new RangeDeletion(std::unique_ptr<RangeDeletion::Rep>(new RangeDeletion::Rep{
          *this, *impl_, std::move(range), versions_end, std::move(cursor), {}, false, {}, {}, 0, 0})));
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
