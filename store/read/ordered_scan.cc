#include "store/read/ordered_scan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/engine/writer_lock.h"

namespace remora {
namespace {

absl::Status Overtaken() {
  return absl::AbortedError(
      "scan: more was written meanwhile than the store keeps for the moment of a scan; continue with "
      "resume_token()");
}

absl::Status LostRecord(std::string_view key) {
  return absl::DataLossError(absl::StrCat("scan: the store's data lack the record of a key of ", key.size(),
                                          " bytes that the index has; restore a backup"));
}

// A scan keeps no more memory than this for the values that follow a large one.
constexpr std::size_t kMostKept = std::size_t{512} << 10;

}  // namespace

void OrderedScan::Open(ScanRange range) {
  is_over_ = range.is_empty();
  if (!is_over_) view_ = core_.ordered->Open(std::move(range));
}

OrderedScan::~OrderedScan() {
  if (view_ == nullptr) return;
  const WriterLock lock(core_.mutex);
  core_.ordered->Close(std::move(view_));
}

bool OrderedScan::Advance(std::uint64_t most) {
  has_entry_ = false;
  if (steps_ > 0) {
    --steps_;
    return true;
  }
  if (next_ == copied_.size()) {
    if (is_over_) return false;
    Copy(most <= kMostAtOnce ? static_cast<std::size_t>(most) : kMostLooks);
    return status_.ok();
  }
  const Copied& copied = copied_[next_++];
  const std::string_view key = std::string_view(bytes_).substr(offset_, copied.key_size);
  offset_ += copied.key_size;
  if (copied.is_cold) {
    entry_.value = std::string_view(cold_values_).substr(copied.value_at, copied.value_size);
  } else {
    entry_.value = std::string_view(bytes_).substr(offset_, copied.value_size);
    offset_ += copied.value_size;
  }
  entry_.key = key;
  entry_.version = copied.version;
  entry_.expiry_ms = copied.expiry_ms;
  has_entry_ = copied.is_there;
  return true;
}

void OrderedScan::Copy(std::size_t looks) {
  if (bytes_.capacity() > kMostKept) bytes_ = {};
  if (cold_values_.capacity() > kMostKept) cold_values_ = {};
  bytes_.clear();
  cold_values_.clear();
  copied_.clear();
  cold_.clear();
  next_ = offset_ = 0;
  {
    const WriterLock lock(core_.mutex);
    if (view_->is_given_up()) {
      status_ = Overtaken();
      is_over_ = true;
      return;
    }
    CopySome(looks);
    if (cold_.empty()) return Pass();
  }
  absl::Status read = ReadCold();
  const WriterLock lock(core_.mutex);
  FinishCold(std::move(read));
  Pass();
}

void OrderedScan::Pass() {
  if (!status_.ok()) return;
  if (!last_.empty()) core_.ordered->GoBehind(view_.get(), last_);
  if (is_over_) core_.ordered->Close(std::move(view_));
}

// Merges the keys that exist now with those of which the view has saved the past. Among the latter are keys
// that exist no more, and keys that did not exist at the view's moment.
void OrderedScan::CopySome(std::size_t looks) {
  const ScanRange& rest = view_->rest();
  const OrderedKeys& all = core_.ordered->keys();
  rest.reverse ? all.Last(rest.begin, rest.end, looks, &keys_)
               : all.First(rest.begin, rest.end, looks, &keys_);
  FindRecords();
  const bool has_more = keys_.size() == looks;  // behind the last of keys_
  const OrderedIndex::SavedRecords& saved = view_->saved();
  auto next = saved.begin();
  auto last = saved.end();
  const auto has_saved = [&] { return next != last; };
  const auto first_saved = [&] { return rest.reverse ? std::prev(last) : next; };
  std::string_view done;  // may refer to a saved record
  std::size_t looked = 0;
  std::size_t i = 0;
  for (; looked < looks && bytes_.size() < kMostBytes; ++looked) {
    if (i == keys_.size() && (has_more || !has_saved())) break;
    bool takes_saved = has_saved();
    bool takes_key = i < keys_.size();
    if (takes_saved && takes_key) {
      const int order = first_saved()->first.compare(keys_[i]) * (rest.reverse ? -1 : 1);
      takes_saved = order <= 0;
      takes_key = order >= 0;
    }
    if (takes_saved) {  // V1
      const auto& [key, record] = *first_saved();
      REMORA_CHECK(rest.Contains(key));  // V2
      if (record->is_there) Append(key, record->value, record->version, record->expiry_ms);
      done = key;
      rest.reverse ? void(--last) : void(++next);
    } else {
      if (const std::optional<Index::Entry> entry = core_.index.Find(keys_[i], hashes_[i])) {
        const RecordHeader& header = core_.log.Header(entry->place);
        Append(keys_[i], core_.log.Value(entry->place), header.version_live >> 1, header.expiry_ms);
      } else {
        REMORA_CHECK(core_.has_tier());  // V4
        AppendCold(keys_[i]);
      }
      done = keys_[i];
    }
    if (takes_key) ++i;
  }
  is_over_ = i == keys_.size() && !has_more && !has_saved();
  steps_ = looked - copied_.size();
  last_ = done;
}

// The reads of a key's bucket and record depend on each other, but those of different keys do not.
void OrderedScan::FindRecords() {
  hashes_.clear();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    hashes_.push_back(HashKey(keys_[i]));
    core_.index.PrefetchBucket(hashes_.back());
  }
  for (const std::uint64_t hash : hashes_) core_.index.PrefetchRecords(hash);
}

void OrderedScan::Append(std::string_view key, std::string_view value, std::uint64_t version,
                         std::uint64_t expiry_ms) {
  if (keys_only_) value = {};
  bytes_ += key;
  bytes_ += value;
  copied_.push_back({key.size(), value.size(), version, expiry_ms});
}

// --- Cold keys ------------------------------------------------------------------------------------------

void OrderedScan::AppendCold(std::string_view key) {
  cold_.push_back({copied_.size(), bytes_.size()});
  bytes_ += key;
  copied_.push_back({.key_size = key.size(), .is_cold = true});
}

absl::Status OrderedScan::ReadCold() {
  std::vector<DurableTier::WantedKey> keys;
  std::size_t behind = 0;  // the last cold key, in copied_
  for (const Cold& cold : cold_) {
    keys.push_back(
        {std::string_view(bytes_).substr(cold.key_at, copied_[cold.number].key_size), cold.number - behind});
    behind = cold.number + 1;
  }
  std::size_t next = 0;
  const absl::Status read =
      core_.tier->ForKeys(keys, view_->rest().reverse, [&](const DurableTier::Entry& entry) {
        while (keys[next].key != entry.key) ++next;
        Copied& copied = copied_[cold_[next].number];
        copied.version = entry.header.version;
        copied.expiry_ms = entry.header.expiry_ms;
        SetValue(&copied, entry.value);
        cold_[next].is_read = true;
        // The entry after it is for the next step.
        ++next;
        const bool is_enough = cold_values_.size() >= kMostBytes && next < keys.size();
        return is_enough ? absl::CancelledError() : absl::OkStatus();
      });
  if (!absl::IsCancelled(read)) return read;
  CutOff(cold_[next].number);
  return absl::OkStatus();
}

void OrderedScan::FinishCold(absl::Status read) {
  for (const Cold& cold : cold_) {
    Copied& copied = copied_[cold.number];
    const std::string_view key = std::string_view(bytes_).substr(cold.key_at, copied.key_size);
    absl::Status why = cold.is_read ? absl::OkStatus() : read;
    if (Resolve(key, cold.is_read, &copied, &why)) continue;
    if (cold.number == 0) {
      status_ = std::move(why);
      is_over_ = true;
    }
    return CutOff(cold.number);
  }
}

bool OrderedScan::Resolve(std::string_view key, bool is_read, Copied* copied, absl::Status* why) {
  if (view_->is_given_up()) {
    *why = Overtaken();
    return false;
  }
  const auto take = [&](const OrderedIndex::Saved& record) {
    copied->is_there = record.is_there;
    copied->version = record.version;
    copied->expiry_ms = record.expiry_ms;
    SetValue(copied, record.value);
  };
  if (const auto saved = view_->saved().find(key); saved != view_->saved().end()) {
    take(*saved->second);  // V1
    return true;
  }
  const bool is_pending = core_.unsynced_keys.Has(key);
  if (is_read && !is_pending) return true;  // V8
  if (const std::optional<Index::Entry> entry = core_.index.Find(key, HashKey(key))) {
    const RecordHeader& header = core_.log.Header(entry->place);
    copied->version = header.version_live >> 1;
    copied->expiry_ms = header.expiry_ms;
    SetValue(copied, core_.log.Value(entry->place));
    return true;
  }
  if (is_pending) {
    const OrderedIndex::Record held = core_.ordered->Held(key);  // V6
    if (held != nullptr) take(*held);
    if (held == nullptr) *why = core_.disk.sync_failure().ok() ? Overtaken() : core_.disk.sync_failure();
    return held != nullptr;
  }
  if (why->ok()) *why = LostRecord(key);
  return false;
}

void OrderedScan::SetValue(Copied* copied, std::string_view value) {
  if (keys_only_) value = {};
  copied->value_at = cold_values_.size();
  copied->value_size = value.size();
  cold_values_ += value;
}

void OrderedScan::CutOff(std::size_t from) {
  copied_.resize(from);
  std::erase_if(cold_, [&](const Cold& cold) { return cold.number >= from; });
  std::size_t end = 0;
  for (const Copied& copied : copied_) {
    last_ = std::string_view(bytes_).substr(end, copied.key_size);
    end += copied.key_size + (copied.is_cold ? 0 : copied.value_size);
  }
  if (status_.ok()) is_over_ = false;
}

std::optional<std::uint64_t> OrderedScan::CountAtOnce() const {
  if (view_ == nullptr) return 0;
  if (view_->is_given_up() || !view_->saved().empty()) return std::nullopt;
  const ScanRange& rest = view_->rest();
  return core_.ordered->keys().Count(rest.begin, rest.end);
}

}  // namespace remora
