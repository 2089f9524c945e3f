// The search for one key, as every GET makes it. A lookup is a state machine that says what to READ next, or
// to ask the server, and judges the bytes or the reply that arrived. It does not wait. A driver posts the
// READs and takes their completions:
//
//   client/get/blocking_get.cc   one READ after the other
//   client/get/multi_get.cc      the READs of many keys, in rounds
//   client/async/reads.cc        the READs of all operations in flight
//
// Warm: READ the record at the key's cached location (client/cache/location_cache.h), and verify it.
// client/cache/segment_generations.h says why the location may be trusted. If no location is cached, take the
// place that the client's mirror of the index has (client/mirror/index_mirror.h), if it has one. If the key's
// record is not there any more, or there is no such place, the lookup goes on cold.
//
// Cold: READ the key's bucket, READ the record that a matching slot names, and verify it
// (store/format/memory/key_search.h).
//
// A search can end without a result because the key is being written at the time; then the lookup searches
// again. The lookup asks the server where the record is in these cases:
//
//   - Repeated searches had no result.
//   - It cannot tell whether the record has expired (client/session/server_clock.h).
//   - The record is not in memory, or the store is loading and the record may not be in memory. The server
//     then reads the record, and may bring it to memory.
//   - The caller only wants to know whether the key exists, and its record is large.
//   - The key is not in the index, and may be another server's (client/session/known_slots.h).
//
// The server replies with the place and the version. The place stays readable for the grace period. So one
// more READ gets the value that was current when the server replied, even if its live bit is gone by then. Or
// it replies with the value itself, if the record is small and is not to come to memory.
//
// A large value, and a value that goes to memory of the caller, is read in chunks: client/get/chunked_read.h.
//
//   lookup.Begin(...);
//   switch (lookup.step()) {
//     case kRead:    READ size() bytes at offset(); Posted(), and at the completion Take(the bytes)
//     case kAsk:     send a kLocate for the key; Asked(), and at the reply Take(the answer)
//     case kFound:   value() is the key's value, in the bytes last taken; facts() has its version and expiry
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
#include "client/counters.h"
#include "client/get/chunked_read.h"
#include "client/get/fast_get.h"
#include "client/get/record_copy.h"
#include "client/session/session.h"
#include "store/format/memory/key_search.h"

namespace remora {

/// The READ of generations, or for the mirror of the index, that the lookups of one session share. They have
/// one in flight at a time: another one would show nothing that this one does not.
struct GenerationRead {
  const class Lookup* reader = nullptr;  // whose READ is planned or in flight; nullptr: none is

  bool is_taken() const { return reader != nullptr; }
};

/// The key of a lookup, and the caller's wishes for its result.
struct LookupSpec {
  std::string_view key;
  /// False: the caller only wants to know whether the key exists; kFound may then come without value and
  /// facts.
  bool wants_value = true;
  /// Destination of the value. The lookup uses its text only for a value that is read in chunks. Without a
  /// target, the lookup keeps such a value itself.
  ValueTarget target{};
  /// True: the lookup begins with steps in which nothing is READ: of the cached location, or of the fast path
  /// (client/get/fast_get.h). So the prefetches for many lookups overlap.
  bool begins_fast = false;
  /// True: the driver reads all chunks of a record (is_all_chunks), instead of one kRead step for each chunk.
  bool drives_chunks = false;
};

/// Search for one key: its stage, the READ that is next, and the result.
///
/// The class has more than 25 methods and 15 fields, because it keeps what each of its READs showed. It has a
/// method for each step, and for each judgement of a step.
///
/// Thread safety: none. Ownership: the session, the GenerationRead, the key and the target outlive the
/// lookup.
class Lookup {
 public:
  enum class Step : std::uint8_t { kRead = 1, kAsk, kFound, kMissing, kFailed };

  /// The largest size in bytes of a READ that is_shared. The driver must call Take with
  /// such bytes at once.
  static constexpr std::size_t kMaxSharedBytes = SegmentGenerations::kChunkSize;
  static_assert(kMaxSharedBytes >= 64 * sizeof(std::uint64_t));
  static_assert(kMaxSharedBytes >= IndexMirror::kMaxRead);

  void Begin(Session& session, GenerationRead& generation_read, const LookupSpec& spec);

  Step step() const { return step_; }

  // kRead. The bytes of a bucket must stay unchanged until those of the next bucket arrive.
  std::uint64_t offset() const { return offset_; }
  std::size_t size() const { return size_; }
  bool is_bucket() const { return reading_ == Reading::kBucket; }
  /// Returns whether the step only looks at memory that was prefetched. Then nothing is READ, and the driver
  /// calls Look instead of Take.
  bool is_look() const {
    return reading_ == Reading::kRecall || reading_ == Reading::kLine || reading_ == Reading::kLikely;
  }
  /// Makes such a step. `buffer` has space for a record, and must stay unchanged until the lookup
  /// ends. REQUIRES: is_look().
  void Look(std::span<std::byte> buffer);
  /// Returns whether the READ is of the directory, of generations or for the mirror of the index, which all
  /// lookups of the session use. It has at most kMaxSharedBytes.
  bool is_shared() const {
    return step_ == Step::kRead && (reading_ == Reading::kDirectory || reading_ == Reading::kGenerations ||
                                    reading_ == Reading::kMirror);
  }
  /// Returns whether the READ is a chunk of a record. The driver may reuse its bytes after Take. If the
  /// record is large, each chunk counts as progress.
  bool is_chunk() const { return reading_ == Reading::kChunk; }
  bool is_large() const { return wanted_.slot.extent_bytes() > kMaxSmallExtent; }
  /// Returns the part of a chunk that goes to the caller's memory for the value.
  const rdma::Sge& direct() const { return direct_; }
  /// Returns whether the driver is to read all chunks of a record. It drives chunks() to the end, and then
  /// calls TakeChunks. Only with LookupSpec::drives_chunks.
  bool is_all_chunks() const { return step_ == Step::kRead && reading_ == Reading::kAllChunks; }
  ChunkedReader& chunks() { return **chunks_; }
  void TakeChunks();
  void Posted();
  void Take(std::span<const std::byte> bytes);
  /// Leaves the READ that is_shared and was not posted to other lookups. The driver calls it for a lookup
  /// that it ends before the result is there; until the next Begin it makes no step.
  void Abandon() {
    if (generation_read_ != nullptr && generation_read_->reader == this) generation_read_->reader = nullptr;
  }
  /// Offers the lookup the record that a FIND returned together with a bucket, after Take of that bucket.
  /// `bytes` are those of the record at `offset`. The lookup takes them if they are exactly the next READ,
  /// and ignores them otherwise. They must stay unchanged as long as the bytes of a READ must.
  void TakeFound(std::uint64_t offset, std::span<const std::byte> bytes);

  // kAsk
  /// Notes that the driver is about to ask the server. If the request cannot be sent, the driver calls Asked
  /// again before the next try.
  void Asked();
  /// Takes the server's answer. It may have the value itself, which is copied to `buffer`, of kMaxValueBehind
  /// bytes or more, where it must stay unchanged as long as the bytes of a READ must.
  void Take(const ServerReply& answer, std::span<std::byte> buffer);

  // kFound. value() points into the bytes that Take got. If the value came in chunks, value() points to the
  // target, or else to the text that the lookup keeps. kFailed with OutOfRange: the target is too small.
  std::string_view value() const {
    if (record_.body != nullptr) return record_.Value();
    if (target_.memory)
      return {reinterpret_cast<const char*>(target_.memory->data), record_.header.value_size};
    return target_.text != nullptr ? *target_.text : text_;
  }
  /// Copies the value to the target's text, unless it is there already. REQUIRES: kFound; the target has a
  /// text.
  void CopyToTarget() const {
    if (record_.body != nullptr) Assign(record_.Value(), target_.text);
  }
  /// Returns the text that the lookup keeps, so that value() may outlive the next Begin.
  std::string TakeText() { return std::exchange(text_, {}); }
  const RecordFacts& facts() const { return facts_; }
  std::string_view key() const { return key_; }
  std::uint64_t key_hash() const { return key_hash_; }
  /// Returns whether the lookup asked the server. Then the server knows that the key was read.
  bool has_asked() const { return has_asked_; }
  /// Returns whether the server answered more than once, because the client could not use the previous answer
  /// in time. READs after that are no progress: it may go on like that for ever.
  bool is_told_again() const { return answers_ > 1; }

  /// Returns what this lookup has counted of the session's counters so far, but for READs: for PathOf
  /// (client/metrics/recorder.h). Unlike them, it has nothing of lookups that are in flight beside it.
  ClientCounters did() const {
    return {.retries = path_.was_retried ? 1u : 0u,
            .locates = answers_,
            .cold = path_.was_cold ? 1u : 0u,
            .chunked = path_.was_chunked ? 1u : 0u,
            .location_hits = path_.was_cached ? 1u : 0u};
  }
  /// Forgets what an earlier lookup in this place did, as Begin does. For one that may never begin.
  void ForgetPath() {
    path_ = {};
    answers_ = 0;
  }

  // kFailed
  const absl::Status& status() const { return status_; }

 private:
  enum class Reading : std::uint8_t {
    kRecall = 1,  // of the cached location, which was prefetched
    kLine,
    kLikely,
    kBucket,
    kRecord,
    kChunk,
    kAllChunks,
    kDirectory,
    kGenerations,
    kMirror,
    kSlotsWord
  };

  /// Source of a record's place: the location cache, the mirror of the index, the search, or the server.
  enum class Source : std::uint8_t { kCache = 1, kMirror, kSearch, kServer };
  /// Most READs by which one lookup keeps the mirror fresh.
  static constexpr int kMaxUpkeepReads = 2;

  /// Result of a part of the lookup. kUnsure: the outcome is unknown; search again.
  enum class Outcome : std::uint8_t { kFound = 1, kMissing, kUnsure, kAskServer };

  /// Prefetches the cached location, for a look at it.
  void Recall() {
    session_->cache().locations().Prefetch(key_hash_);
    Read(Reading::kRecall, 0, 0);
  }
  void Warm();
  bool BeginUpkeep();
  void Search();
  void SearchAgain();
  /// Does the next step of the search.
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
  /// Returns the place of a slot that does not come from a bucket.
  RecordPlace PlaceOf(const Slot& slot) const {
    return {slot.offset_units, slot.extent_bytes(), {}, session_->server().shape().incarnation};
  }
  /// Judges by its expiry whether the record, verified as live and read since `start_`, answers the GET.
  Outcome JudgeLive() const;
  Outcome JudgeCached();
  void End(Outcome outcome);
  /// Ends a search that has missed the key, unless the slots of the server are to be looked at.
  void EndMissed();
  /// Judges whether the key is absent, by a word that was loaded behind the search.
  void JudgeMiss(std::uint64_t slots_word);
  void EndLocated();
  /// Takes the value in the server's answer.
  void TakeValue(const ServerReply& answer, std::span<std::byte> buffer);
  void EndFound(const RecordFacts& facts);
  /// Ends with `step`, which follows from the server's answer, if that is still valid; else asks again.
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

  TimePoint start_;           // when the search began, or the request to the server
  bool was_loading_ = false;  // whether the server was loading at start_
  int searches_ = 0;
  FastGet fast_;
  std::optional<KeySearch> search_;
  KnownLocation known_;
  RegionReader::DirectoryRange directory_;
  bool directory_read_ = false;  // the directory was READ for this bucket
  std::uint64_t refreshed_segment_ = 0;
  bool refreshed_ = false;  // generations were READ for this place
  TimePoint refresh_posted_;
  int upkeep_reads_ = 0;                      // READs for the mirror that this lookup made
  SegmentGenerations::Number refreshes_ = 0;  // count when the record's READ was posted (G4)

  /// Events of this lookup, for did().
  struct Path {
    bool was_retried = false;
    bool was_cold = false;
    bool was_chunked = false;
    bool was_cached = false;  // the READ at the cached location had the record
  };
  Path path_;

  bool has_asked_ = false;
  std::uint32_t answers_ = 0;
  TimePoint asked_;
  Reply located_;

  Source source_ = Source::kSearch;  // of wanted_
  WantedRecord wanted_;              // the record that is READ
  // For a record that is read in chunks. Few are, so this memory is allocated with the first one and reused:
  // that keeps lookups small, of which many lie side by side.
  std::unique_ptr<std::optional<ChunkedReader>> chunks_;
  std::string text_;  // a value that was read in chunks without a target

  RecordCopy record_;
  RecordFacts facts_;
  absl::Status status_;
};

}  // namespace remora
