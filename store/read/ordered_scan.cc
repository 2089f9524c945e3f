#include "store/read/ordered_scan.h"

#include <algorithm>
#include <utility>

#include "store/base/check.h"
#include "store/engine/writer_lock.h"

namespace remora {
namespace {

absl::Status Overtaken() {
  return absl::AbortedError(
      "scan: more was written meanwhile than the store keeps for the moment of a scan; continue with "
      "resume_token()");
}

// A scan keeps no more memory than this for the values that follow a large one.
constexpr std::size_t kMostKept = std::size_t{512} << 10;

}  // namespace

OrderedScan::OrderedScan(StoreCore& core, ScanRange range, bool keys_only)
    : core_(core), keys_only_(keys_only) {
  if (range.is_empty()) {
    is_over_ = true;
    return;
  }
  const WriterLock lock(core_.mutex);
  view_ = core_.ordered->Open(std::move(range));
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
    Copy(static_cast<std::size_t>(std::min<std::uint64_t>(most, kMostLooks)));
    return status_.ok();
  }
  const Copied& copied = copied_[next_++];
  const std::string_view bytes(bytes_);
  entry_ = {bytes.substr(offset_, copied.key_size),
            bytes.substr(offset_ + copied.key_size, copied.value_size), copied.version, copied.expiry_ms};
  offset_ += copied.key_size + copied.value_size;
  has_entry_ = true;
  return true;
}

void OrderedScan::Copy(std::size_t looks) {
  if (bytes_.capacity() > kMostKept) bytes_ = {};
  bytes_.clear();
  copied_.clear();
  next_ = offset_ = 0;
  const WriterLock lock(core_.mutex);
  if (view_->is_given_up()) {
    status_ = Overtaken();
    is_over_ = true;
    return;
  }
  CopySome(looks);
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
  std::string_view done;
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
      const std::optional<Index::Entry> entry = core_.index.Find(keys_[i], hashes_[i]);
      REMORA_CHECK(entry.has_value());  // V4
      const RecordHeader& header = core_.log.Header(entry->place);
      Append(keys_[i], core_.log.Value(entry->place), header.version_live >> 1, header.expiry_ms);
      done = keys_[i];
    }
    if (takes_key) ++i;
  }
  is_over_ = i == keys_.size() && !has_more && !has_saved();
  steps_ = looked - copied_.size();
  // GoBehind drops the saved record to whose key `done` may refer.
  if (looked > 0) core_.ordered->GoBehind(view_.get(), std::string(done));
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

std::optional<std::uint64_t> OrderedScan::CountAtOnce() const {
  if (view_ == nullptr) return 0;
  if (view_->is_given_up() || !view_->saved().empty()) return std::nullopt;
  const ScanRange& rest = view_->rest();
  return core_.ordered->keys().Count(rest.begin, rest.end);
}

}  // namespace remora
