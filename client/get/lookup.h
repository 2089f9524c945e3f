// The search for one key, as every GET makes it: a state machine that says what is to be READ next, or that
// the server is to be asked, and judges what came. It does not wait. A driver posts the READs and takes their
// completions: client/get/blocking_get.cc one after the other, client/get/multi_get.cc those of many keys in
// rounds, client/async/poll.cc those of all operations in flight.
//
// Warm: READ the record where the key's was before (client/cache/location_cache.h), which may be trusted for
// the reasons in client/cache/segment_generations.h; verify it. When it is not there any more, or nothing is
// known of the key:
//
// Cold: READ the key's bucket, READ the record that a matching slot names, verify it
// (store/format/memory/key_search.h).
//
// When a search can tell nothing, because the key is being written just then, the lookup searches again. When
// that does not help, it asks the server where the record is; so it does when it cannot tell whether a record
// has expired (client/session/server_clock.h), or when the record is not in memory, where the server brings
// it then; or may not be, while the store is loading. The server answers with the place and the version. What
// is there stays readable for the grace period, so one more READ has the value that was current when the
// server answered, even if its live bit is gone by then.
//
// A large value, and one that is to land in memory of the caller, is read in chunks:
// client/get/chunked_read.h.
//
//   lookup.Begin(...);
//   switch (lookup.step()) {
//     case kRead:    READ size() bytes at offset(); Posted(), and at the completion Take(the bytes)
//     case kAsk:     send a kLocate for the key; Asked(), and at the reply Take(the answer)
//     case kFound:   value() is the key's value, in the bytes last taken, and facts() go with it
//     case kMissing: the key was not there
//     case kFailed:  status() says why
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "client/cache/location_cache.h"
#include "client/cache/segment_generations.h"
#include "client/get/chunked_read.h"
#include "client/get/fast_get.h"
#include "client/get/record_copy.h"
#include "client/session/session.h"
#include "store/format/memory/key_search.h"

namespace remora {

/// The READ of generations that the lookups of one session may have in flight: one at a time, since of two
/// that overlap it is not known which saw more.
struct GenerationRead {
  bool is_in_flight = false;
};

/// A lookup's key, and what is wanted of it.
struct LookupSpec {
  std::string_view key;
  /// False: only whether the key is there. Then kFound may come without value and facts.
  bool wants_value = true;
  /// A place for the value. Text is used for a value that comes in chunks alone; without it, the lookup keeps
  /// that.
  ValueTarget target{};
  /// Whether the fast path (client/get/fast_get.h) is tried first, as steps that are not READ.
  bool begins_fast = false;
  /// Whether the driver reads a record in chunks by itself (is_all_chunks), instead of one chunk at a time.
  bool drives_chunks = false;
};

/// Its fields are those of the stages of one search; what was read, what is read, and what the result is.
///
/// Thread safety: none. Ownership: the session, the GenerationRead, the key and the target outlive the
/// lookup.
class Lookup {
 public:
  enum class Step : std::uint8_t { kRead = 1, kAsk, kFound, kMissing, kFailed };

  /// Bytes, at most, of a READ that is neither a bucket nor of a record: Take must get them at once.
  static constexpr std::size_t kMostSharedBytes = SegmentGenerations::kChunkSize;
  static_assert(kMostSharedBytes >= 64 * sizeof(std::uint64_t));

  void Begin(Session& session, GenerationRead& generation_read, const LookupSpec& spec);

  Step step() const { return step_; }

  // kRead. A bucket's bytes must stay as they are until the next bucket's come.
  std::uint64_t offset() const { return offset_; }
  std::size_t size() const { return size_; }
  bool is_bucket() const { return reading_ == Reading::kBucket; }
  /// The fast path: nothing is READ; Look instead of Take. `buffer`: for a record; it must stay as it is
  /// until the lookup ends.
  bool is_look() const { return reading_ == Reading::kLine || reading_ == Reading::kLikely; }
  void Look(std::span<std::byte> buffer);
  /// The directory or generations, which all lookups of the session use. At most kMostSharedBytes.
  bool is_shared() const {
    return step_ == Step::kRead && (reading_ == Reading::kDirectory || reading_ == Reading::kGenerations);
  }
  /// A chunk of a record: its bytes may go once they were taken. Of a large record, progress was made.
  bool is_chunk() const { return reading_ == Reading::kChunk; }
  bool is_large() const { return wanted_.slot.extent_bytes() > kMaxSmallExtent; }
  /// The part of a chunk that goes to the memory for the value.
  const rdma::Sge& direct() const { return direct_; }
  /// LookupSpec::drives_chunks: nothing is to be READ but what chunks() says. Drive that to its end, then
  /// TakeChunks.
  bool is_all_chunks() const { return step_ == Step::kRead && reading_ == Reading::kAllChunks; }
  ChunkedReader& chunks() { return **chunks_; }
  void TakeChunks();
  void Posted();
  void Take(std::span<const std::byte> bytes);
  /// Behind the Take of a bucket: `bytes` are those of the record at `offset` that came with it (FIND). If
  /// they are what is to be READ next, it takes them, and else nothing. They must stay as those of a READ.
  void TakeFound(std::uint64_t offset, std::span<const std::byte> bytes);

  // kAsk
  /// Before it is sent; if it cannot be, once more before the next try.
  void Asked();
  void Take(const ServerReply& answer);

  // kFound. The value's bytes are those that were taken; or, if they came in chunks, they are here, or where
  // they were wanted. kFailed, OutOfRange: there is no room for them there.
  std::string_view value() const {
    if (record_.body != nullptr) return record_.Value();
    if (target_.memory)
      return {reinterpret_cast<const char*>(target_.memory->data), record_.header.value_size};
    return target_.text != nullptr ? *target_.text : text_;
  }
  /// Copies the value to where the target's text is, unless it came there. REQUIRES: kFound, and a text.
  void CopyToTarget() const {
    if (record_.body != nullptr) Assign(record_.Value(), target_.text);
  }
  /// Returns the text that the lookup keeps, so that value() may outlive the next Begin.
  std::string TakeText() { return std::exchange(text_, {}); }
  const RecordFacts& facts() const { return facts_; }
  std::string_view key() const { return key_; }
  std::uint64_t key_hash() const { return key_hash_; }
  /// Whether the server was asked: then it knows that the key is used.
  bool has_asked() const { return has_asked_; }
  /// Whether the server's answer before the last came too late to be read. What is read after that is no
  /// progress: it may go on like that for ever.
  bool is_told_again() const { return answers_ > 1; }

  // kFailed
  const absl::Status& status() const { return status_; }

 private:
  enum class Reading : std::uint8_t {
    kLine = 1,
    kLikely,
    kBucket,
    kRecord,
    kChunk,
    kAllChunks,
    kDirectory,
    kGenerations
  };

  /// The way in which the place of a record is known: from the cache, by the search, from the server.
  enum class Source : std::uint8_t { kCache = 1, kSearch, kServer };

  /// Result of a part of the lookup. kUnsure: nothing is known.
  enum class Outcome : std::uint8_t { kFound = 1, kMissing, kUnsure, kAskServer };

  void Warm();
  void Search();
  void SearchAgain();
  /// Goes on where the search stands.
  void Advance();
  void ReadBucket();
  void ReadFound();
  void ReadRecord(Source source, const Slot& slot, const RecordPlace& place);
  void ReadChunk();
  void TakeRecord();
  bool BeginGenerationRead(std::uint64_t segment);
  void Read(Reading reading, std::uint64_t offset, std::size_t size) {
    step_ = Step::kRead;
    reading_ = reading;
    offset_ = offset;
    size_ = size;
    direct_ = {};
  }
  /// The place of a slot that does not come from a bucket.
  RecordPlace PlaceOf(const Slot& slot) const {
    return {slot.offset_units, slot.extent_bytes(), {}, session_->server().shape().incarnation};
  }
  /// Judges the key's live record, verified, that was read since `start_`.
  Outcome JudgeLive() const;
  Outcome JudgeCached();
  void End(Outcome outcome);
  void EndLocated();
  void EndFound(const RecordFacts& facts);
  /// Ends as the server says, if that came in time.
  void EndAsked(Step step);

  Session* session_ = nullptr;
  GenerationRead* generation_read_ = nullptr;
  std::string_view key_;
  std::uint64_t key_hash_ = 0;
  bool wants_value_ = false;
  bool drives_chunks_ = false;
  ValueTarget target_;

  Step step_ = Step::kMissing;
  Reading reading_ = Reading::kBucket;
  std::uint64_t offset_ = 0;
  std::size_t size_ = 0;
  rdma::Sge direct_{};

  TimePoint start_;           // of the search, or of asking
  bool was_loading_ = false;  // the server, before what was read since
  int searches_ = 0;
  FastGet fast_;
  std::optional<KeySearch> search_;
  KnownLocation known_;
  RegionReader::DirectoryRange directory_;
  bool directory_read_ = false;  // for this bucket
  std::uint64_t refreshed_segment_ = 0;
  bool refreshed_ = false;  // its generations were READ for this place
  TimePoint refresh_posted_;
  std::uint64_t refreshes_ = 0;  // that had ended when the record's READ was posted

  bool has_asked_ = false;
  std::uint32_t answers_ = 0;
  TimePoint asked_;
  Reply located_;

  Source source_ = Source::kSearch;  // of the record that is READ
  WantedRecord wanted_;              // it
  // If it comes in chunks. Apart, for most do not, and lookups lie side by side; its memory is used again.
  std::unique_ptr<std::optional<ChunkedReader>> chunks_;
  std::string text_;  // a large value, without a target

  RecordCopy record_;
  RecordFacts facts_;
  absl::Status status_;
};

}  // namespace remora
