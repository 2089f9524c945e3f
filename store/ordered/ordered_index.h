// The ordered index: all keys of a store in order, and the views of open scans.
//
// A view shows the records of a range as of the moment at which it was opened. Records change meanwhile. So
// before a key of an open view changes for the first time, the writer saves the key's record in the view.
//
//   V1  A key of a view's rest had, at the view's moment, the record that the view has saved for it. If the
//       view has saved none, it is the record that the key has now, in memory or in the durable tier.
//   V2  A view has saved records only of keys in its rest: the part of its range that the scan has yet to
//       show.
//   V3  All views together have saved at most `limit` bytes. If they would have more, the largest view is
//       given up: it shows nothing more.
//   V4  The index has exactly the keys that exist, as far as the hash index knows them, each time the writer
//       gives up the lock. While a store loads, that is a part of the keys, and no view is open. In between
//       it has all of these keys at each moment, as clients READ it (B4 of store/format/memory/leaf_block.h).
//
// With a durable tier, a key may be cold: it has its record there alone. And a write may be pending: the tier
// has it, and readers see the record before it (store/write/sync_queue.h).
//
//   V5  A write of a cold key brings the record that it replaces. If it has not got it, the views that would
//       have to save it are given up.
//   V6  While a cold key has a pending write, the index holds the record that readers see, because the tier
//       may have the next one. If it holds none, a scan that comes to the key ends.
//   V7  A record does not leave memory while its key has a pending write.
//   V8  A scan reads the tier without the lock, and looks at the key again afterwards, under the lock. It
//       shows the record from the tier only if the key has no pending write. And the view must have saved
//       none for the key, and must not be given up.
//
// Why V8 suffices. The key has not changed since the view's moment, or the view would have saved a record. So
// the tier has had the key's record, or that of a pending write. Such a write is pending still. Or it was
// published, and the view has saved a record. Or its fsync failed, and its key counts as pending for ever.
// A read may have promoted the key meanwhile: its record in memory is that of the tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "store/format/types/scan_range.h"
#include "store/ordered/leaf_blocks.h"
#include "store/ordered/ordered_keys.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Keys of a store in their order, and the past of some of them.
///
/// The class has more than 25 methods, because each kind of change, of a hot and of a cold key, has its own.
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
  /// Null: the record is not known, or larger than views may keep.
  using Record = std::shared_ptr<const Saved>;
  using SavedRecords = std::map<std::string, Record, std::less<>>;

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

  /// `log` has the records, and outlives the index, as do the other two. `limit`: see V3. The leaves are in
  /// `segments` of `region`, as far as these are free.
  OrderedIndex(const ValueLog& log, std::size_t limit, std::span<std::byte> region, Segments& segments,
               std::uint64_t incarnation)
      : log_(log), limit_(limit), blocks_(region, segments, incarnation), keys_({}, &blocks_) {}
  OrderedIndex(const OrderedIndex&) = delete;
  OrderedIndex& operator=(const OrderedIndex&) = delete;

  /// Notes that the key's record at `old` is about to be replaced, or removed, or that a key without a record
  /// (null) gets one. Call it before the change, while `old` has the record, for each change that readers
  /// see. A move of a record is none. After a removal, call FinishRemove.
  void NoteReplace(const Place& old) {
    if (!views_.empty()) Save(log_.Key(old), &old);
  }
  void NoteRemove(const Place& old);
  void NoteInsert(std::string_view key);

  /// Returns a copy of a record for the methods below. Null: it is larger than views may keep.
  Record CopyOf(std::uint64_t version, std::uint64_t expiry_ms, std::string_view value) const;
  /// Note that a cold key with the record `old` is about to get another record, or none. After a removal,
  /// call FinishRemove.
  void NoteReplaceCold(std::string_view key, const Record& old);
  void NoteRemoveCold(std::string_view key, const Record& old);
  /// Notes that the record of a cold key has expired and is about to be removed. Returns false if the index
  /// has no such key. Call FinishRemove afterwards.
  bool NoteExpiredCold(std::string_view key);
  /// Erases the key whose removal was noted, now that the hash index does not have it any more (V4).
  void FinishRemove();
  bool is_removing() const { return removing_.has_value(); }
  /// Notes that the hash index is about to know a key that the durable tier has. REQUIRES: no view is open.
  void NoteLoad(std::string_view key);

  /// Holds the record of a cold key until NoteReplaceCold or NoteRemoveCold, because a write of it is pending
  /// (V6). Does nothing if all records that are held would have more bytes than views may save.
  void Hold(std::string_view key, const Record& record);
  /// Returns the record that is held for the key. Null: there is none.
  Record Held(std::string_view key) const;

  const OrderedKeys& keys() const { return keys_; }
  bool has_views() const { return !views_.empty(); }

  /// Opens a view of the current moment. Close it before the index ends.
  std::unique_ptr<View> Open(ScanRange range);
  void Close(std::unique_ptr<View> view);
  /// Takes the keys up to `key`, in the order of the scan, out of the view's rest (V2).
  void GoBehind(View* view, std::string_view key);

  /// Returns the bytes that all views have saved, and those that are held.
  std::size_t saved_bytes() const { return saved_bytes_ + held_bytes_; }
  /// Returns how many views were given up.
  std::uint64_t given_up() const { return given_up_; }

 private:
  void BeginRemove(std::string_view key);
  void Save(std::string_view key, const Place* old);
  /// Saves the record that `copy` returns in the views that need it. Calls it once, or not at all.
  void SaveCopy(std::string_view key, absl::FunctionRef<Record()> copy);
  void Drop(View* view, SavedRecords::iterator begin, SavedRecords::iterator end);
  void GiveUp(View* view);
  void Release(std::string_view key);
  static std::size_t BytesOf(std::string_view key, const Saved& saved);

  const ValueLog& log_;
  const std::size_t limit_;
  LeafBlocks blocks_;
  OrderedKeys keys_;
  std::optional<std::string> removing_;  // the key of a removal that is not finished
  std::vector<View*> views_;             // the oldest one first
  std::size_t saved_bytes_ = 0;
  absl::flat_hash_map<std::string, Record> held_;
  std::size_t held_bytes_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace remora
