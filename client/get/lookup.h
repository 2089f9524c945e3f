// A GET that does not wait: a state machine that says what is to be READ next, or that the server is to be
// asked, and judges what came. Whoever drives it posts the READs and takes their completions. It makes the
// steps of client/get/get.cc, which says why they are right, in that order.
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
#include "client/get/get.h"
#include "client/get/get_steps.h"
#include "client/session/session.h"
#include "store/format/memory/key_search.h"

namespace remora {

/// Who uses one session may have one look at generations under way at a time.
struct LookUnderWay {
  bool is = false;
};

/// Thread Safety: none.
class Lookup {
 public:
  enum class Step : std::uint8_t { kRead = 1, kAsk, kFound, kMissing, kFailed };

  /// Of a READ that is not a bucket or of a record, at most: what Take must get at once.
  static constexpr std::size_t kMostSideBytes = SegmentGenerations::kChunkSize;
  static_assert(kMostSideBytes >= 64 * sizeof(std::uint64_t));

  /// `key` must stay as it is until the lookup ends, as must session and look. `wants_value`: false for who
  /// only asks whether the key is there; then kFound may come without value and facts. `into`: registered
  /// memory that the value is to be READ into.
  void Begin(Session& session, LookUnderWay& look, std::string_view key, bool wants_value,
             const std::optional<rdma::Sge>& into = {});

  Step step() const { return step_; }

  // kRead. A bucket's bytes must stay as they are until the next bucket's come.
  std::uint64_t offset() const { return offset_; }
  std::size_t size() const { return size_; }
  bool is_bucket() const { return reading_ == Reading::kBucket; }
  /// Of a first look (client/get/fast_get.h): it is not READ, but looked at. `buffer`: for a record; it must
  /// stay as it is until the lookup ends.
  bool is_look() const { return reading_ == Reading::kLine || reading_ == Reading::kLikely; }
  void Look(std::span<std::byte> buffer);
  /// Of a record that comes in pieces: its bytes may go once they were taken. Of a large one, progress was
  /// made.
  bool is_piece() const { return reading_ == Reading::kPiece; }
  bool is_large() const { return wanted_.slot.extent_bytes() > kMaxSmallExtent; }
  /// Of a piece: what of it goes to the memory for the value.
  const rdma::Sge& direct() const { return direct_; }
  void Posted();
  void Take(std::span<const std::byte> bytes);

  // kAsk
  /// Before it is sent; if it cannot be, once more before the next try.
  void Asked();
  void Take(const Session::Answer& answer);

  // kFound. The value's bytes are those that were taken; or, if they came in pieces, they are here, or where
  // they were wanted. kFailed, OutOfRange: there is no room for them there.
  std::string_view value() const {
    if (record_.body != nullptr) return record_.Value();
    if (!into_) return text_;
    return {reinterpret_cast<const char*>(into_->data), record_.header.value_size};
  }
  /// So that what value() points to may outlive the next Begin.
  std::string TakeText() { return std::exchange(text_, {}); }
  const RecordFacts& facts() const { return facts_; }
  std::uint64_t key_hash() const { return key_hash_; }
  /// Whether the server was asked: then it knows that the key is used.
  bool has_asked() const { return has_asked_; }
  /// Whether the server's answer before the last came too late to be read. What is read after that is no
  /// progress: it may go on like that for ever.
  bool is_told_again() const { return answers_ > 1; }

  // kFailed
  const absl::Status& status() const { return status_; }

 private:
  enum class Reading : std::uint8_t { kLine = 1, kLikely, kBucket, kRecord, kPiece, kDirectory, kLook };

  /// How its place is known: from before, by the search, from the server.
  enum class Source : std::uint8_t { kRemembered = 1, kSearch, kServer };

  void Warm();
  void Search();
  void Again();
  /// Where the search stands.
  void Advance();
  void ReadBucket();
  void ReadFound();
  void ReadRecord(Source source, const Slot& slot, const RecordPlace& place);
  void ReadPiece();
  void TakeRecord();
  bool BeginLook(std::uint64_t segment);
  void Read(Reading reading, std::uint64_t offset, std::size_t size) {
    step_ = Step::kRead;
    reading_ = reading;
    offset_ = offset;
    size_ = size;
    direct_ = {};
  }
  /// Of a slot that does not come from a bucket.
  RecordPlace PlaceOf(const Slot& slot) const {
    return {slot.offset_units, slot.extent_bytes(), {}, session_->shape().incarnation};
  }
  void Judged(GetOutcome outcome, const Found& found);
  void EndLocated();
  void EndFound(const RecordFacts& facts);
  /// The server says so, if that came in time.
  void EndAsked(Step step);

  Session* session_ = nullptr;
  LookUnderWay* look_ = nullptr;
  std::string_view key_;
  std::uint64_t key_hash_ = 0;
  bool wants_value_ = false;
  std::optional<rdma::Sge> into_;

  Step step_ = Step::kMissing;
  Reading reading_ = Reading::kBucket;
  std::uint64_t offset_ = 0;
  std::size_t size_ = 0;
  rdma::Sge direct_{};

  TimePoint start_;           // of the search, or of asking
  bool was_loading_ = false;  // the server, before what was read since
  int searches_ = 0;
  FastGet first_;
  std::optional<KeySearch> search_;
  KnownLocation known_;
  Session::DirectoryRange directory_;
  bool directory_read_ = false;  // for this bucket
  std::uint64_t look_segment_ = 0;
  bool looked_ = false;  // for this place
  TimePoint look_posted_;
  std::uint64_t looks_ = 0;  // that had ended when the record's READ was posted

  bool has_asked_ = false;
  std::uint32_t answers_ = 0;
  TimePoint asked_;
  Reply located_;

  Source source_ = Source::kSearch;  // of the record that is READ
  WantedRecord wanted_;              // it
  // If it comes in pieces. Apart, for most do not, and lookups lie side by side; its memory is used again.
  std::unique_ptr<std::optional<ChunkedReader>> pieces_;
  std::string text_;  // a large one's value

  RecordCopy record_;
  RecordFacts facts_;
  absl::Status status_;
};

}  // namespace remora
