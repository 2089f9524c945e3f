// The first look for a key where a READ is a copy (rdma/local/mapped_region.h): at one cache line of the
// key's main bucket, where its slot is most likely, or else at all of it, and at the record of the first slot
// there with the key's fingerprint. That is what nearly all GETs come to, in a third of the instructions of a
// search (store/format/memory/key_search.h). Where it was not, a search begins anew.
//
//   FastGet look;
//   if (look.FindLine(...) && look.FindRecord(...) && look.Verify(...)) {
//     copy what is wanted of look.record()
//     if (look.Holds(...)) it is the key's
//   }
//
// Nothing is copied but what is wanted. That what is looked at where it is does not change meanwhile:
//
//   F1 A slot is one aligned word, which the server stores, and we load, at once: here no word is torn. So it
//      names a record that was published (or what is verified there in vain).
//   F2 A published record never changes, but for its live bit (layout.h, I4), until its memory is used for
//      something else; then `reuses` has grown before (I6). Where it has not, all that was seen from
//      FindLine to Holds was of one record, what was verified and what was copied alike.
//   F3 A live record is the key's wherever it was found, so nothing is asked of the rest of its bucket, nor
//      of any clock. It was the key's when its live bit was seen, in Verify, and the server lived after that;
//      should it die before the copy is made, its memory stays as it is.
//
// Inline, and in few steps: what comes behind the record's first byte, up to the next GET's first look, is
// best so short that a processor begins that one while it waits for this one.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "client/get/record_copy.h"
#include "client/session/session.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"

namespace remora {

/// Thread Safety: none.
class FastGet {
 public:
  /// Whether it is of use: READs are copies, and no places are remembered.
  static bool IsFor(const Session& session) {
    return session.region().reads_now() && !session.cache().locations().is_on();
  }
  static constexpr std::size_t kLineSize = kWordsPerLine * sizeof(std::uint64_t);

  // In this order, each behind one that returned true; between them, others may make theirs.
  [[gnu::always_inline]] bool FindLine(const Session& session, std::uint64_t key_hash) {
    line_ = session.region().KnownOffsetOf({false, session.server().index().HomeOf(key_hash).bucket});
    const bool is_known = line_ != 0;
    line_ += LineOf(key_hash) * kLineSize;
    return is_known;
  }
  /// Not the rest of the bucket: few need that, and a processor has only so many accesses under way.
  void PrefetchLine(const Session& session) const { session.region().Prefetch(line_, kLineSize); }
  std::uint64_t line_offset() const { return line_; }

  [[gnu::always_inline]] bool FindRecord(const Session& session, std::uint64_t key_hash) {
    reuses_ = session.region().Reuses();
    const auto* const line = reinterpret_cast<const std::uint64_t*>(session.region().At(line_, kLineSize));
    if (line == nullptr) return false;
    // The control word, taken for a slot, would lead nowhere.
    const std::uint32_t found = WordsWith<kWordsPerLine>(line, Fingerprint(key_hash));
    const std::uint64_t* const slot =
        found != 0 ? line + std::countr_zero(found) : FindInBucket(session, line_, key_hash);
    if (slot == nullptr) return false;
    // Where it leads is for Verify to see to: it may have changed since, or be another key's.
    const Slot leads_to = DecodeSlot(__atomic_load_n(slot, __ATOMIC_ACQUIRE));
    offset_ = leads_to.offset_bytes();
    size_ = leads_to.extent_bytes();
    return size_ - sizeof(RecordHeader) <= kMaxSmallExtent - sizeof(RecordHeader);
  }
  void PrefetchRecord(const Session& session) const { session.region().Prefetch(offset_, size_); }
  std::uint64_t record_offset() const { return offset_; }
  std::size_t extent_bytes() const { return size_; }

  [[gnu::always_inline]] bool Verify(Session& session, std::string_view key, std::uint64_t key_hash) {
    session.counters().reads += 2;
    const std::byte* const record = session.region().At(offset_, size_);
    if (record == nullptr) return false;
    const RecordPlace place{offset_ / kUnitSize, size_, {}, session.server().shape().incarnation};
    return ReadLiveRecord(key, key_hash, record, place, &record_) && session.region().ServerIsAlive();
  }
  const LiveRecord& record() const { return record_; }

  [[gnu::always_inline]] bool Holds(const Session& session) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // all that was copied comes before
    return session.region().ReusesStill() == reuses_;
  }

 private:
  /// There was no room in its line for the key's slot, or the key is not there: null. (Static, so that what a
  /// look is made of need never be in memory.)
  [[gnu::noinline]] static const std::uint64_t* FindInBucket(const Session& session, std::uint64_t line,
                                                             std::uint64_t key_hash) {
    const std::byte* const bytes =
        session.region().At(line / sizeof(Bucket) * sizeof(Bucket), sizeof(Bucket));
    if (bytes == nullptr) return nullptr;
    const auto& bucket = *reinterpret_cast<const Bucket*>(bytes);
    SlotSet found = FindSlots(bucket, key_hash);
    return found.empty() ? nullptr : bucket.slots.data() + found.Next();
  }

  std::uint64_t reuses_;
  std::uint64_t line_;    // offsets in the region
  std::uint64_t offset_;  // of the record
  std::size_t size_;
  LiveRecord record_;
};

/// Its last steps, and all of a GET that is left then: true, and it is done. False: nothing is known yet, and
/// *value may have changed. `version`: as Client::Get. REQUIRES: FindRecord.
[[gnu::always_inline]] inline bool CopyVerified(Session& session, FastGet& look, std::string_view key,
                                                std::uint64_t key_hash, std::string* value,
                                                std::uint64_t* version) {
  if (!look.Verify(session, key, key_hash)) return false;
  const LiveRecord& record = look.record();
  if (record.expiry_ms != 0 && !session.server().IsAlive(record.expiry_ms)) return false;
  Assign(record.value, value);
  if (!look.Holds(session)) return false;
  if (version != nullptr) *version = record.version;
  session.NoteRead(key_hash);
  return true;
}

/// A GET where nothing comes in between: true, and it is done. False: nothing is known yet; Get. `version`:
/// as Client::Get. REQUIRES: the key's size is in bounds.
[[gnu::always_inline]] inline bool TryFastGet(Session& session, std::string_view key, std::string* value,
                                              std::uint64_t* version) {
  if (!session.is_ready() || !FastGet::IsFor(session)) return false;
  const std::uint64_t key_hash = HashKey(key);
  FastGet look;
  if (!look.FindLine(session, key_hash) || !look.FindRecord(session, key_hash)) return false;
  return CopyVerified(session, look, key, key_hash, value, version);
}

}  // namespace remora
