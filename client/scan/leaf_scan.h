// A scan that READs the leaves of the server's ordered index (store/format/memory/leaf_block.h), and the
// records of their keys, while the server does nothing.
//
//   N1  A scan is at a position: it has shown, or left out, all keys before it. It moves on over the keys
//       that a verified leaf covers, and over no others. So the ranges of its leaves follow each other
//       without a gap, and no key comes twice.
//   N2  A leaf counts if its READ was posted after the scan began. So each key that exists during the whole
//       scan is in one of its leaves. A key without a record did not exist during the whole scan.
//   N3  All that came from the server counts under its lease alone, as a GET: the caller confirms a page
//       before it shows any of it. If it cannot, the position goes back.
//
// At a server that has a part of a cluster's slots, these may come and go meanwhile (KnownSlots):
//   S1  Before its first leaf, the scan asks the server, which answers once no slots are about to come. It
//       keeps the slots word of that answer, which is one of this start of the server.
//   S2  It loads the word behind the READs of each page, and behind the first page of each part that the
//       server shows; each later answer has it, too. Another word: slots have come or gone. A leaf may lack
//       keys that went, so the scan ends with Moved, and shows no entry of that page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/get/multi_get.h"
#include "client/session/leaf_directory.h"
#include "client/session/leaf_scan_memory.h"
#include "client/session/session.h"
#include "store/format/memory/leaf_block.h"
#include "store/format/types/scan_range.h"
#include "store/format/wire/messages.h"

namespace remora {

/// The reader of a one-sided scan. It makes pages of entries as those of a server
/// (store/format/wire/scan_messages.h), of whole entries.
///
/// Thread safety: none. Ownership: the session outlives it.
class LeafScan {
 public:
  /// `rest`: the range to show, which is not by_hash.
  LeafScan(Session& session, bool keys_only, const ScanRange& rest);
  LeafScan(const LeafScan&) = delete;
  LeafScan& operator=(const LeafScan&) = delete;

  /// Leaves the memory of the scan to the session's next one. Call it last, if the session still exists.
  void GiveMemory();

  /// Returns OK if the server of the session can be scanned so.
  ///   FailedPrecondition: it has no ordered index, or is of an earlier release.
  static absl::Status CheckServer(Session& session);

  enum class Outcome : std::uint8_t {
    kPage = 1,    // the page has entries, or the scan has left keys out
    kEnd = 2,     // there are no more; the page is empty
    kBarred = 3,  // the leaf at the position cannot be READ now: the server has to show some keys
  };
  /// Reads the next entries, `most` at most, into page(). Moved: slots came or went (S2).
  absl::StatusOr<Outcome> ReadPage(std::uint64_t most);
  /// Returns the entries, valid until the next ReadPage.
  std::string_view page() const { return memory_->page.view(); }

  /// Moves the scan to a range: after an error, or after the server has shown keys.
  void GoTo(const ScanRange& rest);
  /// Returns whether what it knows is of another start of the server, or another server. Then it has to GoTo
  /// its position, from which it begins anew.
  bool is_outdated() const { return incarnation_ != 0 && incarnation_ != Incarnation(); }
  /// Returns OK, or Moved if slots came or went since the scan began (S2).
  absl::Status CheckSlots();

 private:
  static constexpr std::size_t kBatch = LeafScanMemory::kBatch;

  const LeafImage& image() const { return memory_->image; }
  /// Returns key `i` of those of the leaf that the scan has to show, in its order.
  std::string_view KeyAt(std::size_t i) const {
    return image().keys[rest_.reverse ? first_ + count_ - 1 - i : first_ + i];
  }

  /// Sets image() to a leaf that covers the position (kPage).
  absl::StatusOr<Outcome> FindLeaf();
  /// Takes the leaf out of a buffer, as image(), and learns where it and the next one are. `hint`: the entry
  /// of the directory that led there, or null.
  absl::StatusOr<LeafRead> TakeLeaf(std::span<const std::byte> bytes, std::uint64_t place,
                                    const LeafDirectory::Hint* hint);
  bool CoversPosition() const;
  std::uint64_t Incarnation() const { return session_.server().shape().incarnation; }
  absl::Status ReadLeafAt(std::uint64_t place);
  absl::StatusOr<Outcome> AskServer(std::uint64_t* place);
  absl::Status CompareSlots(std::uint64_t word) const;
  /// Selects the keys of image() that the scan still has to show.
  void SelectKeys();
  /// Begins to READ the leaf behind image(), if the scan needs it and knows it. Where a READ is a copy, it
  /// prefetches the leaf.
  absl::Status ReadAhead(std::uint64_t most);
  /// Reads records from that of KeyAt(next_) on, at most to that of KeyAt(end - 1), and appends those that
  /// exist.
  absl::Status ReadRecords(std::size_t end);
  /// Reads the next `count` records side by side.
  absl::Status ReadSome(std::size_t count);
  void MoveBehindLeaf();

  Session& session_;
  const bool keys_only_;
  MultiGets gets_;
  ScanRange rest_;        // from the position on
  bool is_over_ = false;  // nothing is behind the leaf
  std::unique_ptr<LeafScanMemory> memory_;
  bool has_leaf_ = false;              // image() covers the position
  std::size_t first_ = 0, count_ = 0;  // keys of image() to show: [first_, first_ + count_)
  std::size_t next_ = 0;               // of them, by KeyAt
  std::size_t slow_ = 1;               // records that are read side by side where the fast path ends
  std::string hinted_low_;             // of the hint that is tried
  std::uint64_t ahead_ = 0;            // the place of the leaf in the second buffer; 0: none
  std::uint64_t incarnation_ = 0;      // of the start of the server that said slots_word_; 0: none has
  std::uint64_t slots_word_ = 0;
};

}  // namespace remora
