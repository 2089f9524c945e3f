#include "store/ordered/ordered_index.h"

#include <algorithm>
#include <utility>

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
  REMORA_CHECK(keys_.Erase(key));  // V4
}

std::size_t OrderedIndex::BytesOf(std::string_view key, const Saved& saved) {
  return kSavedOverhead + key.size() + saved.value.size();
}

void OrderedIndex::Save(std::string_view key, const Place* old) {
  std::shared_ptr<const Saved> record;  // one copy for all views
  // A record that no view may keep is not copied.
  const bool is_large = old != nullptr && log_.Value(*old).size() > limit_;
  for (View* const view : views_) {
    if (view->is_given_up_ || !view->rest_.Contains(key) || view->saved_.contains(key)) continue;
    if (is_large) {
      GiveUp(view);
      continue;
    }
    if (record == nullptr) {
      Saved copy;
      if (old != nullptr) {
        const RecordHeader& header = log_.Header(*old);
        copy.is_there = true;
        copy.version = header.version_live >> 1;
        copy.expiry_ms = header.expiry_ms;
        copy.value = log_.Value(*old);
      }
      record = std::make_shared<const Saved>(std::move(copy));
    }
    view->saved_.emplace(key, record);
    view->bytes_ += BytesOf(key, *record);
    saved_bytes_ += BytesOf(key, *record);
  }
  while (saved_bytes_ > limit_) {  // V3
    GiveUp(*std::ranges::max_element(views_, {}, &View::bytes_));
  }
}

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
