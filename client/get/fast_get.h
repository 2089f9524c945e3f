// The fast path of a GET where a READ is a copy (rdma/local/mapped_region.h). The reader looks at one cache
// line of the key's main bucket, where the key's slot is most likely, or else at the whole bucket. Then it
// looks at the record of the first slot there that has the key's fingerprint. This answers nearly all GETs,
// with far fewer instructions than a search (store/format/memory/key_search.h). If it does not answer, the
// caller begins a search.
//
//   FastGet look;
//   LiveRecord record;
//   if (look.FindLine(...) && look.FindRecord(...) && ReadLiveRecord(..., look.bytes(), ..., &record) &&
//       session.region().ServerIsAlive()) {
//     copy the wanted part of `record`
//     if (look.IsUnchanged(...)) the copy is the key's
//   }
//
// The caller copies the wanted part alone; FastGet looks at everything else in place. These invariants say
// why the bytes do not change meanwhile:
//
//   F1 A slot is one aligned word. The server stores it with one access, and the reader loads it with one
//      access, so here no word is torn. A slot therefore names a record that was published, or a place where
//      ReadLiveRecord fails.
//   F2 A published record never changes, except for its live bit (layout.h, I4), until its memory is used for
//      something else; `reuse_epoch` has grown before that (I6). FindRecord loads `reuse_epoch` first. If
//      IsUnchanged finds it unchanged, the bytes that were verified and the bytes that were copied belong to
//      one record.
//   F3 A live record is the key's wherever it was found, so the reader needs neither the rest of the bucket
//      nor a clock. The record was the key's when ReadLiveRecord saw its live bit, and the server was alive
//      after that. If the server dies before the copy is made, its memory stays as it is.
//
// The functions are inline and short, to keep the number of instructions between the record's first byte and
// the next GET's first look small. A CPU can then begin the next GET while it waits for the memory of
// this one.
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

/// Attempt to answer one GET with a look at its most likely slot and record.
///
/// Thread safety: none.
class FastGet {
 public:
  /// Returns whether the fast path is of use: READs are copies, and the client remembers no locations.
  static bool IsFor(const Session& session) { return session.region().reads_now() && !session.remembers(); }
  static constexpr std::size_t kLineSize = kWordsPerLine * sizeof(std::uint64_t);

  // Call FindLine, FindRecord, ReadLiveRecord, ServerIsAlive and IsUnchanged in this order, each after the
  // previous one returned true. Between FindLine, FindRecord and ReadLiveRecord, the caller may make steps of
  // other GETs.
  [[gnu::always_inline]] bool FindLine(const Session& session, std::uint64_t key_hash) {
    line_ = session.region().KnownOffsetOf({false, session.server().index().HomeOf(key_hash).bucket});
    const bool is_known = line_ != 0;
    line_ += PreferredLine(key_hash) * kLineSize;
    return is_known;
  }
  /// Prefetches the line, not the rest of the bucket: few GETs need the rest, and a CPU can have only
  /// so many accesses in flight.
  void PrefetchLine(const Session& session) const { session.region().Prefetch(line_, kLineSize); }
  std::uint64_t line_offset() const { return line_; }

  [[gnu::always_inline]] bool FindRecord(const Session& session, std::uint64_t key_hash) {
    reuse_epoch_ = session.region().ReuseEpoch();
    const auto* const line = reinterpret_cast<const std::uint64_t*>(session.region().At(line_, kLineSize));
    if (line == nullptr) return false;
    // A control word that is taken for a slot leads to no record that verifies.
    const std::uint32_t found = WordsWith<kWordsPerLine>(line, Fingerprint(key_hash));
    const std::uint64_t* const slot =
        found != 0 ? line + std::countr_zero(found) : FindInBucket(session, line_, key_hash);
    if (slot == nullptr) return false;
    // ReadLiveRecord checks the record there: the slot may have changed since, or be another key's.
    const Slot leads_to = DecodeSlot(__atomic_load_n(slot, __ATOMIC_ACQUIRE));
    offset_ = leads_to.offset_bytes();
    size_ = leads_to.extent_bytes();
    bytes_ = session.region().At(offset_, size_);
    return bytes_ != nullptr && size_ - sizeof(RecordHeader) <= kMaxSmallExtent - sizeof(RecordHeader);
  }
  void PrefetchRecord(const Session& session) const { session.region().Prefetch(offset_, size_); }
  std::uint64_t record_offset() const { return offset_; }
  std::size_t extent_bytes() const { return size_; }
  /// Returns the record's bytes, extent_bytes() of them, where the server may be writing.
  const std::byte* bytes() const { return bytes_; }
  [[gnu::always_inline]] RecordPlace place(const Session& session) const {
    return {offset_ / kUnitSize, size_, {}, session.server().shape().incarnation};
  }

  /// Returns whether the memory was not reused since FindRecord.
  [[gnu::always_inline]] bool IsUnchanged(const Session& session) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // the loads of the copy come before
    return session.region().ReuseEpochInside() == reuse_epoch_;
  }

 private:
  /// Returns the first slot with the key's fingerprint in the whole bucket of `line`; null if there is none.
  /// The key's slot may be in another line, or the key does not exist. Static, so that the compiler can keep
  /// the fields of a FastGet in registers.
  [[gnu::noinline]] static const std::uint64_t* FindInBucket(const Session& session, std::uint64_t line,
                                                             std::uint64_t key_hash) {
    const std::byte* const bytes =
        session.region().At(line / sizeof(Bucket) * sizeof(Bucket), sizeof(Bucket));
    if (bytes == nullptr) return nullptr;
    const auto& bucket = *reinterpret_cast<const Bucket*>(bytes);
    SlotSet found = FindSlots(bucket, key_hash);
    return found.empty() ? nullptr : bucket.slots.data() + found.Next();
  }

  std::uint64_t reuse_epoch_;
  std::uint64_t line_;    // offsets in the region
  std::uint64_t offset_;  // of the record
  std::size_t size_;
  const std::byte* bytes_;
};

/// Verifies the record of `look`, and calls copy(record), which copies what the caller needs. Returns:
///   true: the GET is done; the copy is the key's.
///   false: the outcome is still unknown, and there may be a copy.
/// REQUIRES: look.FindRecord returned true.
template <typename Copy>
[[gnu::always_inline]] inline bool TakeVerified(Session& session, const FastGet& look, std::string_view key,
                                                std::uint64_t key_hash, const Copy& copy) {
  LiveRecord record;
  session.counters().reads += 2;
  if (!ReadLiveRecord(key, key_hash, look.bytes(), look.place(session), &record)) return false;
  if (!session.region().ServerIsAlive()) return false;
  if (record.expiry_ms != 0 && !session.server().IsAlive(record.expiry_ms)) return false;
  copy(record);
  if (!look.IsUnchanged(session)) return false;
  session.NoteRead(key_hash);
  return true;
}

/// Verifies the record of `look`, and copies its value and version to the caller. Returns:
///   true: the GET is done.
///   false: the outcome is still unknown, and *value may have changed.
/// `version` may be null, as for Client::Get, and so may `expiry_ms`. REQUIRES: look.FindRecord returned
/// true.
[[gnu::always_inline]] inline bool CopyVerified(Session& session, const FastGet& look, std::string_view key,
                                                std::uint64_t key_hash, std::string* value,
                                                std::uint64_t* version, std::uint64_t* expiry_ms = nullptr) {
  LiveRecord found{};
  const bool is_done = TakeVerified(session, look, key, key_hash, [&](const LiveRecord& record) {
    Assign(record.value, value);
    found = record;
  });
  if (!is_done) return false;
  if (version != nullptr) *version = found.version;
  if (expiry_ms != nullptr) *expiry_ms = found.expiry_ms;
  return true;
}

/// Tries to do a whole GET on the fast path. Returns:
///   true: the GET is done.
///   false: the outcome is still unknown, and *value may have changed; begin a lookup.
/// `version` may be null, as for Client::Get. REQUIRES: the key's size is in bounds.
[[gnu::always_inline]] inline bool TryFastGet(Session& session, std::string_view key, std::string* value,
                                              std::uint64_t* version) {
  if (!session.is_ready() || !FastGet::IsFor(session)) return false;
  const std::uint64_t key_hash = HashKey(key);
  FastGet look;
  if (!look.FindLine(session, key_hash) || !look.FindRecord(session, key_hash)) return false;
  return CopyVerified(session, look, key, key_hash, value, version);
}

}  // namespace remora
