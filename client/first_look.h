// The first look for a key where a READ is a copy (rdma/mapped_region.h): at one cache line of the key's main
// bucket, where its slot is most likely, or else at all of it, and at the record of the first slot there with
// the key's fingerprint. That is what nearly all GETs come to, in a third of the instructions of a search
// (store/format/key_search.h). Where it was not, a search begins anew.
//
//   FirstLook look;
//   if (look.FindLine(...) && look.ReadLine(...) && look.ReadRecord(...)) {
//     look.record() is the key's, live and verified: judge it
//   }
//
// A live record is the key's wherever it was found, so nothing is asked of the rest of its bucket. No clock
// is needed either: see Session::Reuses.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "client/get_steps.h"
#include "client/session.h"
#include "store/format/layout.h"
#include "store/format/lookup.h"

namespace remora {

/// Thread Safety: none.
class FirstLook {
 public:
  /// Whether it is of use: READs are copies, and no places are remembered.
  static bool IsFor(Session& session) { return session.reads_now() && !session.locations().is_on(); }

  // In this order, each behind one that returned true; between them, others may make theirs.
  bool FindLine(Session& session, std::uint64_t key_hash) {
    reuses_ = session.Reuses();
    line_ = session.KnownOffsetOf({false, session.view().HomeOf(key_hash).bucket});
    const bool is_known = line_ != 0;
    line_ += LineOf(key_hash) * sizeof(Line);
    return is_known;
  }
  /// All of it may be looked at.
  std::uint64_t bucket_offset() const { return line_ / sizeof(Bucket) * sizeof(Bucket); }
  void PrefetchBucket(Session& session) const { session.Prefetch(bucket_offset(), sizeof(Bucket)); }

  bool ReadLine(Session& session, std::uint64_t key_hash) {
    Line line;
    if (!session.PeekNow(std::as_writable_bytes(std::span(line)), line_)) return false;
    // The control word, taken for a slot, would lead nowhere.
    const std::uint32_t found = WordsWith<kWordsPerLine>(line.data(), Fingerprint(key_hash));
    if (found == 0) return ReadBucket(session, key_hash);
    return Follow(session, line[static_cast<std::size_t>(std::countr_zero(found))]);
  }
  void PrefetchRecord(Session& session) const { session.Prefetch(offset_, size_); }
  std::uint64_t record_offset() const { return offset_; }
  std::size_t extent_bytes() const { return size_; }

  /// To the beginning of `buffer`, which holds extent_bytes() at least.
  bool ReadRecord(Session& session, std::string_view key, std::uint64_t key_hash,
                  std::span<std::byte> buffer) {
    const std::span<std::byte> copy = buffer.first(size_);
    ++session.counters().reads;  // what led here; a line that leads nowhere is READ again, with its bucket
    if (!session.ReadNow(copy, offset_)) return false;
    if (session.Reuses() != reuses_) return false;
    record_ = copy.data();
    const RecordPlace place{offset_ / kUnitSize, size_, {}, session.shape().incarnation};
    return IsLiveRecordOf(key, key_hash, header(), body(), place);
  }

  // The record, as long as the buffer is what it was.
  const RecordHeader& header() const { return *reinterpret_cast<const RecordHeader*>(record_); }
  const std::byte* body() const { return record_ + sizeof(RecordHeader); }
  RecordCopy record() const {
    return {.header = header(), .body = body(), .state = RecordState::kLive, .proven = true};
  }

 private:
  using Line = std::array<std::uint64_t, kWordsPerLine>;

  /// There was no room in its line for the key's slot, or the key is not there.
  [[gnu::noinline]] bool ReadBucket(Session& session, std::uint64_t key_hash) {
    Bucket bucket;
    if (!session.PeekNow(std::as_writable_bytes(std::span(&bucket, 1)), bucket_offset())) return false;
    SlotSet found = FindSlots(bucket, key_hash);
    return !found.empty() && Follow(session, bucket.slots[static_cast<std::size_t>(found.Next())]);
  }
  bool Follow(const Session& session, std::uint64_t word) {
    const Slot slot = DecodeSlot(word);
    offset_ = slot.offset_bytes();
    size_ = slot.extent_bytes();
    return SlotNamesPlace(slot, session.shape().memory_size) && size_ <= kMaxSmallExtent;
  }

  std::uint64_t reuses_;
  std::uint64_t line_;    // offsets in the region
  std::uint64_t offset_;  // of the record
  std::size_t size_;
  const std::byte* record_;
};

/// Its last step, and all of a GET that is left then: true, and it is done. False: nothing is known yet.
/// `version`: as Client::Get. REQUIRES: the line led to a record.
[[gnu::always_inline]] inline bool TakeRecord(Session& session, FirstLook& look, std::string_view key,
                                              std::uint64_t key_hash, std::string* value,
                                              std::uint64_t* version) {
  if (!look.ReadRecord(session, key, key_hash, session.record_buffer())) return false;
  const RecordHeader& header = look.header();
  if (header.expiry_ms != 0 && !session.IsAlive(header.expiry_ms)) return false;
  Assign({reinterpret_cast<const char*>(look.body()) + key.size(), header.value_size}, value);
  if (version != nullptr) *version = header.version_live >> 1;
  session.NoteRead(key_hash);
  return true;
}

/// A GET where nothing comes in between: true, and it is done. False: nothing is known yet; Get. `version`:
/// as Client::Get. Inline: what comes behind the record's READ, up to the next GET's first, is best so short
/// that a processor begins that one while it waits for this one. REQUIRES: the key's size is in bounds.
[[gnu::always_inline]] inline bool GetAtOnce(Session& session, std::string_view key, std::string* value,
                                             std::uint64_t* version) {
  if (!session.is_ready() || !FirstLook::IsFor(session)) return false;
  const std::uint64_t key_hash = HashKey(key);
  FirstLook look;
  if (!look.FindLine(session, key_hash) || !look.ReadLine(session, key_hash)) return false;
  return TakeRecord(session, look, key, key_hash, value, version);
}

}  // namespace remora
