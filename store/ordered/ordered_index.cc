#include "store/ordered/ordered_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "store/base/absl_view.h"
#include "store/base/check.h"

namespace remora {
namespace {

// About what a saved record takes beside its key and value: a node of the map, and the record's header.
constexpr std::size_t kSavedOverhead = 160;

}  // namespace

void OrderedIndex::NoteInsert(std::string_view key) {
  if (!views_.empty()) Save(key, nullptr);
  REMORA_CHECK(keys_.Insert(key));  // V4
}

void OrderedIndex::NoteRemove(const Place& old) {
  const std::string_view key = log_.Key(old);
  if (!views_.empty()) Save(key, &old);
  BeginRemove(key);
}

void OrderedIndex::BeginRemove(std::string_view key) {
  REMORA_CHECK(!removing_.has_value());
  removing_.emplace(key);
}

void OrderedIndex::FinishRemove() {
  REMORA_CHECK(removing_.has_value() && keys_.Erase(*removing_));  // V4
  removing_.reset();
}

std::size_t OrderedIndex::BytesOf(std::string_view key, const Saved& saved) {
  return kSavedOverhead + key.size() + saved.value.size();
}

OrderedIndex::Record OrderedIndex::CopyOf(std::uint64_t version, std::uint64_t expiry_ms,
                                          std::string_view value) const {
  if (value.size() > limit_) return nullptr;
  return std::make_shared<const Saved>(
      Saved{.is_there = true, .version = version, .expiry_ms = expiry_ms, .value = std::string(value)});
}

void OrderedIndex::Save(std::string_view key, const Place* old) {
  SaveCopy(key, [&] {
    if (old == nullptr) return std::make_shared<const Saved>();
    const RecordHeader& header = log_.Header(*old);
    return CopyOf(header.version_live >> 1, header.expiry_ms, log_.Value(*old));
  });
}

void OrderedIndex::SaveCopy(std::string_view key, absl::FunctionRef<Record()> copy) {
  std::optional<Record> record;  // one copy for all views
  for (View* const view : views_) {
    if (view->is_given_up_ || !view->rest_.Contains(key) || view->saved_.contains(key)) continue;
    if (!record) record = copy();
    if (*record == nullptr) {
      GiveUp(view);
      continue;
    }
    view->saved_.emplace(key, *record);
    view->bytes_ += BytesOf(key, **record);
    saved_bytes_ += BytesOf(key, **record);
  }
  while (saved_bytes_ > limit_) {  // V3
    GiveUp(*std::ranges::max_element(views_, {}, &View::bytes_));
  }
}

// --- Cold keys ------------------------------------------------------------------------------------------

void OrderedIndex::NoteReplaceCold(std::string_view key, const Record& old) {
  SaveCopy(key, [&] { return old; });  // V5
  Release(key);
}

void OrderedIndex::NoteRemoveCold(std::string_view key, const Record& old) {
  NoteReplaceCold(key, old);
  BeginRemove(key);
}

bool OrderedIndex::NoteExpiredCold(std::string_view key) {
  if (!keys_.Has(key)) return false;
  NoteRemoveCold(key, std::make_shared<const Saved>());  // no scan would show the record
  return true;
}

void OrderedIndex::NoteLoad(std::string_view key) {
  REMORA_CHECK(views_.empty());
  REMORA_CHECK(keys_.Insert(key));  // V4
}

void OrderedIndex::Hold(std::string_view key, const Record& record) {
  if (record == nullptr || held_bytes_ + BytesOf(key, *record) > limit_) return;
  if (!held_.try_emplace(AbslView(key), record).second) return;
  held_bytes_ += BytesOf(key, *record);
}

OrderedIndex::Record OrderedIndex::Held(std::string_view key) const {
  const auto found = held_.find(AbslView(key));
  return found == held_.end() ? nullptr : found->second;
}

void OrderedIndex::Release(std::string_view key) {
  const auto found = held_.find(AbslView(key));
  if (found == held_.end()) return;
  held_bytes_ -= BytesOf(key, *found->second);
  held_.erase(found);
}

// --- Views ----------------------------------------------------------------------------------------------

std::unique_ptr<OrderedIndex::View> OrderedIndex::Open(ScanRange range) {
  if (views_.size() == kMaxViews) {
    GiveUp(views_.front());
    views_.erase(views_.begin());
  }
  auto view = std::make_unique<View>(std::move(range));
  views_.push_back(view.get());
  return view;
}

void OrderedIndex::Close(std::unique_ptr<View> view) {
  Drop(view.get(), view->saved_.begin(), view->saved_.end());
  std::erase(views_, view.get());
}

void OrderedIndex::GoBehind(View* view, std::string_view key) {
  if (!view->saved_.empty()) {
    if (view->rest_.reverse) {
      Drop(view, view->saved_.lower_bound(key), view->saved_.end());
    } else {
      Drop(view, view->saved_.begin(), view->saved_.upper_bound(key));
    }
  }
  view->rest_.GoBehind(key);
}

void OrderedIndex::Drop(View* view, SavedRecords::iterator begin, SavedRecords::iterator end) {
  while (begin != end) {
    const std::size_t bytes = BytesOf(begin->first, *begin->second);
    view->bytes_ -= bytes;
    saved_bytes_ -= bytes;
    begin = view->saved_.erase(begin);
  }
}

void OrderedIndex::GiveUp(View* view) {
  if (view->is_given_up_) return;
  Drop(view, view->saved_.begin(), view->saved_.end());
  view->is_given_up_ = true;
  ++given_up_;
}

}  // namespace remora
