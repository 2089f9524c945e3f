// The ordered index of a store that is only in memory: all its keys in order, and the views of open scans.
//
// A view shows the records of a range as of the moment at which it was opened. Records change meanwhile. So
// before a key of an open view changes for the first time, the writer saves the key's record in the view.
//
//   V1  A key of a view's rest had, at the view's moment, the record that the view has saved for it. If the
//       view has saved none, it is the record that the key has now.
//   V2  A view has saved records only of keys in its rest: the part of its range that the scan has yet to
//       show.
//   V3  All views together have saved at most `limit` bytes. If they would have more, the largest view is
//       given up: it shows nothing more.
//   V4  The index has exactly the keys with a live record, each time the writer gives up the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/format/types/scan_range.h"
#include "store/ordered/ordered_keys.h"
#include "store/region/value_log.h"

namespace remora {

/// Keys of a store in their order, and the past of some of them.
///
/// Thread safety: none; used under the writers' lock.
class OrderedIndex {
 public:
  /// Views that are open at once, at most: each write looks at all of them. One more gives the oldest one up.
  static constexpr std::size_t kMaxViews = 256;

  /// Record of a key as it was before a write.
  struct Saved {
    bool is_there = false;  // false: the key did not exist
    std::uint64_t version = 0;
    std::uint64_t expiry_ms = 0;
    std::string value{};
  };
  using SavedRecords = std::map<std::string, std::shared_ptr<const Saved>, std::less<>>;

  /// Rest of a scan's range, as of one moment.
  class View {
   public:
    explicit View(ScanRange range) : rest_(std::move(range)) {}
    View(const View&) = delete;
    View& operator=(const View&) = delete;

    const ScanRange& rest() const { return rest_; }
    const SavedRecords& saved() const { return saved_; }
    bool is_given_up() const { return is_given_up_; }

   private:
    friend class OrderedIndex;
    ScanRange rest_;
    SavedRecords saved_;
    std::size_t bytes_ = 0;  // of saved_
    bool is_given_up_ = false;
  };

  /// `log` has the records, and outlives the index. `limit`: see V3.
  OrderedIndex(const ValueLog& log, std::size_t limit) : log_(log), limit_(limit) {}
  OrderedIndex(const OrderedIndex&) = delete;
  OrderedIndex& operator=(const OrderedIndex&) = delete;

  /// Notes that the key's record at `old` is about to be replaced, or removed, or that a key without a record
  /// (null) gets one. Call it before the change, while `old` has the record, for each change that readers
  /// see. A move of a record is none.
  void NoteReplace(const Place& old) {
    if (!views_.empty()) Save(log_.Key(old), &old);
  }
  void NoteRemove(const Place& old);
  void NoteInsert(std::string_view key);

  const OrderedKeys& keys() const { return keys_; }

  /// Opens a view of the current moment. Close it before the index ends.
  std::unique_ptr<View> Open(ScanRange range);
  void Close(std::unique_ptr<View> view);
  /// Takes the keys up to `key`, in the order of the scan, out of the view's rest (V2).
  void GoBehind(View* view, std::string_view key);

  /// Returns the bytes that all views have saved.
  std::size_t saved_bytes() const { return saved_bytes_; }
  /// Returns how many views were given up.
  std::uint64_t given_up() const { return given_up_; }

 private:
  void Save(std::string_view key, const Place* old);
  void Drop(View* view, SavedRecords::iterator begin, SavedRecords::iterator end);
  void GiveUp(View* view);
  static std::size_t BytesOf(std::string_view key, const Saved& saved);

  const ValueLog& log_;
  const std::size_t limit_;
  OrderedKeys keys_;
  std::vector<View*> views_;  // the oldest one first
  std::size_t saved_bytes_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace remora
