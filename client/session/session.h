// A connected client's state, and the two things that the GET and PUT paths are made of: one READ, one
// request.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cache/location_cache.h"
#include "client/cache/segment_generations.h"
#include "client/counters.h"
#include "client/options.h"
#include "client/registered_buffer.h"
#include "client/rpc/payload_stream.h"
#include "client/scan.h"
#include "client/session/access_hints.h"
#include "client/session/call_guard.h"
#include "client/session/fork_guard.h"
#include "client/session/server_clock.h"
#include "rdma/adaptive_poll.h"
#include "rdma/local/mapped_region.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"

namespace remora {

inline constexpr std::string_view kForgotten =
    "the connection broke, and the server does not know this client any more: it was restarted, or has "
    "forgotten "
    "it; whether the write was done is unknown";
inline constexpr std::string_view kStrayReply = "the server sent a reply that answers nothing; connect again";

/// With what is not set as the address wants it.
ClientOptions ResolvedFor(const rdma::Address& address, ClientOptions options);

inline std::string_view ValueIn(const RegisteredBytes& memory) {
  return {reinterpret_cast<const char*>(memory.bytes().data()), memory.bytes().size()};
}

/// Everything is allocated and registered in Start; nothing is per operation.
///
/// Thread Safety: none.
class Session {
 public:
  /// Registers buffers, connects, checks that the server speaks the same format, and reads its superblock.
  /// `dialer`: for later connections, and for the second one that a token takes; none: there will be none.
  static absl::StatusOr<std::unique_ptr<Session>> Start(std::unique_ptr<rdma::Connection> connection,
                                                        Dialer dialer, const ClientOptions& options,
                                                        const Clock& clock);
  ~Session();

  /// Each call of the public API begins here: its deadline runs from the first time that it has to wait.
  /// OK unless an earlier call left the connection in an unknown state.
  absl::Status BeginCall() {
    deadline_.reset();
    if (is_forked()) broken_ = absl::FailedPreconditionError(kForked);
    return broken_;
  }
  /// Whether that would be OK.
  bool is_ready() const { return broken_.ok() && !is_forked(); }
  /// This is a child's copy: nothing may be done with it. No attempt to reconnect it succeeds.
  bool is_forked() const { return forks_ != Forks::Count(); }
  /// Of the call: begins to run if it did not yet.
  TimePoint deadline() {
    if (!deadline_.has_value()) deadline_ = clock_.Now() + options_.timeout;
    return *deadline_;
  }

  /// Not OK: the connection is broken, and every call fails.
  const absl::Status& status() const { return broken_; }
  /// The same, also where a call did not notice. Reconnect heals it.
  bool is_broken() const { return !broken_.ok() || !connection_->status().ok(); }

  // --- reconnect.cc

  bool reconnects() const { return dialer_ != nullptr && options_.reconnect; }
  /// Makes another connection, in the place of the one that broke for `cause`; tries until the deadline. All
  /// that was known of the server is forgotten. Unknown: there is another, but what became of the call's
  /// write, whose answer was lost, nobody knows. `cause`: there is no time. Unavailable: there was not
  /// enough. Others are final, as of Start.
  absl::Status Reconnect(const absl::Status& cause, TimePoint deadline);
  /// One attempt at that, for who does not wait in between. Not OK: `is_final`, or another may end better,
  /// after a pause. OK: `was_forgotten` says that the server does not know what this client wrote before.
  struct Attempt {
    absl::Status status;
    bool is_final = false;
    bool was_forgotten = false;
  };
  Attempt TryToReconnect(TimePoint deadline);
  /// Behind the attempt of this number, from 0 on.
  static Duration Pause(int attempt);
  /// The call does not want to know any more.
  void AbandonWrite() { unacknowledged_write_ = 0; }
  /// Ends the connection: no device is at any memory of ours any more. It counts as broken.
  void EndConnection();
  /// Waits until the device is not at any memory of a caller's, or the connection has ended.
  void LetGo();
  /// Registers a buffer with this connection, if it is good, and all that will follow, until Remove.
  absl::Status Add(RegisteredBuffer* buffer);
  void Remove(RegisteredBuffer* buffer);
  /// InvalidArgument: it is another client's.
  absl::Status CheckOwn(const RegisteredBytes& memory) const;

  /// READs it into the session's own buffer, where it stays until the next call.
  absl::StatusOr<const Superblock*> ReadSuperblock();
  // The bytes at the start of a record that are worth fetching before they are copied; what follows comes by
  // the processor's own foresight.
  static constexpr std::size_t kPrefetched = 1024;

  // READs of which the caller says where they go, and when they are waited for.
  /// At most this many before an AwaitRead.
  static constexpr std::size_t kMaxBatch = 32;
  absl::Status PostRead(std::span<const rdma::Sge> to, std::uint64_t offset);
  /// True: it is done already, and not to be awaited. False: PostRead it.
  bool ReadNow(std::span<std::byte> to, std::uint64_t offset) {
    const bool done = mapped_ != nullptr && mapped_->Read(to, offset);
    counters_.reads += done ? 1 : 0;
    return done;
  }
  /// Whether READs are done so, but now and then.
  bool reads_now() const { return mapped_ != nullptr; }
  /// The bytes where they are, and whether what was seen of them counts (MappedRegion). Not counted as READs.
  /// REQUIRES: reads_now.
  const std::byte* At(std::uint64_t offset, std::size_t size) const { return mapped_->At(offset, size); }
  [[gnu::always_inline]] bool IsOfTheLiving() { return mapped_->IsOfTheLiving(); }
  /// What was seen between two looks at this that told the same, is to be trusted whatever the time
  /// (layout.h, I6). REQUIRES: reads_now.
  std::uint64_t Reuses() const { return mapped_->Word(offsetof(Superblock, reuses)); }
  /// Behind an At that told where something is, with no call between that may end the connection.
  std::uint64_t ReusesStill() const { return mapped_->WordInside(offsetof(Superblock, reuses)); }
  /// OK: all that were posted are done.
  absl::Status AwaitRead() { return Await(reads_done_); }
  /// A READ of this may follow.
  void Prefetch(std::uint64_t offset, std::size_t size) const {
    if (mapped_ != nullptr) mapped_->Prefetch(offset, std::min(size, kPrefetched));
  }
  /// Where a bucket is in the region; 0: the directory does not show its place whole. Costs a READ, for which
  /// it waits, when the index has grown by a segment.
  absl::StatusOr<std::uint64_t> OffsetOf(const BucketRef& bucket);
  /// A READ of nothing of interest: when it is done, so are the WRITEs before it.
  absl::Status PostFence();
  absl::Status PostWrite(const SgeList& from, const RemoteRegion& region, std::uint64_t offset) {
    return connection_->PostWritev(from.entries(), region, offset);
  }
  /// Puts {key, value} at the beginning of `payload`, of one of the buffers below, except what is gathered
  /// from where it is. What is then to be WRITTEN: that, and what stands behind it in `payload`.
  SgeList Fill(std::span<std::byte> payload, std::string_view key, const SentValue& value) const;
  /// Registered memory between calls: what Call uses, too. Of kMaxSmallExtent bytes at least,
  /// and kMaxPayloadSize.
  std::span<std::byte> record_buffer() const { return registration_->bytes().first(kMaxSmallExtent); }
  /// The same, for a bucket each. REQUIRES: number < kMaxBatch.
  std::span<std::byte> bucket_buffer(std::size_t number) const;
  std::span<std::byte> payload_buffer() const;
  /// REQUIRES: CheckOwn.
  rdma::Sge SgeOf(const RegisteredBytes& memory) const {
    // No value is larger.
    const std::size_t size = std::min(memory.bytes().size(), kMaxValueSize);
    return {memory.bytes().data(), static_cast<std::uint32_t>(size),
            memory.buffer_->registration_->local_key()};
  }
  /// REQUIRES: `bytes` are of one of these.
  rdma::Sge SgeOf(std::span<std::byte> bytes) const {
    return {bytes.data(), static_cast<std::uint32_t>(bytes.size()), registration_->local_key()};
  }
  const RemoteRegion& slice() const { return hello_.slice; }
  /// There is no slice: what would go there goes along with the request.
  bool is_read_only() const { return (hello_.flags & ReplyFlag::kReadOnly) != 0; }
  const RemoteRegion& memory() const { return hello_.memory; }

  // Requests of which several are under way at once: client/rpc/request_channel.h.
  static constexpr std::size_t kMaxInFlight = 16;
  /// As many as this client and its server take.
  std::size_t credits() const { return std::min<std::size_t>(hello_.credits, kMaxInFlight); }
  /// Registered memory for a request. REQUIRES: number < kMaxInFlight.
  std::span<std::byte> request_buffer(std::size_t number) const;
  /// Waits until nothing of the last call is under way any more: who posts requests of its own begins so.
  absl::Status Settle();
  /// The call makes progress: its deadline runs anew.
  void RestartDeadline() { deadline_.reset(); }

  /// A reply, checked; `behind` says why when status is not kOk.
  struct Answer {
    Reply reply;
    std::string_view behind;  // until the next call
  };

  /// WRITEs key and value into this connection's slice, SENDs the request, awaits the reply.
  absl::StatusOr<Answer> Call(Operation operation, std::string_view key, std::uint64_t key_hash,
                              std::string_view value, const PutOptions& options = {}) {
    return Call(operation, key, key_hash, SentValue{value, {}}, options);
  }
  absl::StatusOr<Answer> Call(Operation operation, std::string_view key, std::uint64_t key_hash,
                              const SentValue& value, const PutOptions& options);
  std::uint64_t last_request_id() const { return last_request_id_; }
  /// The two halves of a Call without a payload in the slice: what is WRITTEN before Exchange has arrived
  /// when the request does.
  /// `ids`: of requests; the last of them is its own.
  Request NextRequest(Operation operation, std::size_t key_size, std::size_t value_size, std::size_t ids = 1);
  absl::StatusOr<Answer> Exchange(const Request& request) { return Exchange(request, 0); }
  /// Each write begins here: the answer that it lost with an earlier connection, by asking for it. Nothing:
  /// none was lost, or it was not done, and it is to be sent.
  absl::StatusOr<std::optional<Answer>> RecoverLostReply() {
    if (unacknowledged_write_ == 0) return std::nullopt;
    return AskForOutcome();
  }

  /// Waits for some completions, and returns how many; the deadline is the call's.
  absl::StatusOr<std::size_t> AwaitSome(std::span<rdma::Completion> completions);
  /// The reply in a receive's completion, as far as it can be judged without its request; nothing: it is
  /// none. Its bytes stay until PostReceive.
  std::optional<Answer> ReplyIn(const rdma::Completion& completion);
  /// Offers the buffer of a receive's completion again.
  absl::Status PostReceive(std::uint64_t index);
  /// Makes every later call fail: what is under way may still come, and would be taken for something else.
  absl::Status Break(absl::Status cause);

  // OffsetOf in steps, for who must not wait.
  /// 0: the directory has to be READ first.
  std::uint64_t KnownOffsetOf(const BucketRef& bucket) const {
    if (bucket.overflow) return bucket.number * sizeof(Bucket);
    const std::uint64_t index = bucket.number / kBucketsPerSegment;
    if (index >= bucket_offsets_.size() || bucket_offsets_[index] == 0) return 0;
    return bucket_offsets_[index] + bucket.number % kBucketsPerSegment * sizeof(Bucket);
  }
  /// The entries of the directory around a bucket's. REQUIRES: it is a main bucket, whose offset is not
  /// known.
  struct DirectoryRange {
    std::uint64_t first = 0;  // entry
    std::uint64_t offset = 0;
    std::size_t size = 0;  // 0: the index cannot be that large
  };
  DirectoryRange DirectoryAround(const BucketRef& bucket) const;
  void TakeDirectory(const DirectoryRange& range, std::span<const std::byte> bytes);

  std::chrono::milliseconds timeout() const { return options_.timeout; }
  const StoreShape& shape() const { return shape_; }
  /// What this client knows of the index' growth.
  IndexView& view() { return view_; }
  const IndexView& view() const { return view_; }
  /// Whether what was read since `start` (of Coarse) is still to be trusted (layout.h, I6).
  TimePoint Coarse() const { return clock_.Coarse(); }
  bool InTime(TimePoint start) const { return clock_.Coarse() - start <= grace_; }
  Duration grace() const { return grace_; }
  /// Whether a record has expired that was read since `start`; for those that never do, it looks at no clock.
  ServerTime::Life LifeOf(std::uint64_t expiry_ms, TimePoint start) const {
    return expiry_ms == 0 ? ServerTime::Life::kAlive : server_time_.Of(expiry_ms, start, clock_.Now());
  }
  /// Whether one that was read just now has not, for sure.
  bool IsAlive(std::uint64_t expiry_ms) const {
    const TimePoint now = clock_.Now();
    return server_time_.Of(expiry_ms, now, now) == ServerTime::Life::kAlive;
  }
  ServerTime& server_time() { return server_time_; }
  /// Until a record expires, or a little less. REQUIRES: it does.
  std::chrono::milliseconds TimeLeft(std::uint64_t expiry_ms) const {
    const std::int64_t left = static_cast<std::int64_t>(expiry_ms) - server_time_.Latest(clock_.Now());
    return std::chrono::milliseconds(std::max<std::int64_t>(left, 0));
  }
  /// Whether a key that the index does not have may exist all the same.
  bool store_is_loading() const { return store_is_loading_; }
  const Clock& clock() const { return clock_; }
  ClientCounters& counters() { return counters_; }
  InUse& in_use() { return in_use_; }

  // Where keys were found before; what there is to spend on it.
  LocationCache& locations() { return locations_; }
  const LocationCache& locations() const { return locations_; }
  SpeculationBudget& budget() { return budget_; }
  const SegmentGenerations& generations() const { return *generations_; }
  SegmentGenerations& generations() { return *generations_; }
  AccessHints& access_hints() { return reads_; }
  /// The key's live record was at `slot` at a moment of the call that has just been made: of a READ of it, or
  /// between request and reply, with no look at generations since that began
  /// (client/cache/segment_generations.h, G4).
  void Learn(std::uint64_t key_hash, const Slot& slot);

  /// The key with this hash was read. Now and then, costs a request.
  [[gnu::always_inline]] void NoteRead(std::uint64_t key_hash) {
    if (reads_.Note(key_hash)) ReportReads();
  }

  rdma::Connection& connection() { return *connection_; }

  // --- scan_window.cc: memory that the server WRITEs, and one request beside those of the calls, for scans.

  struct ScanWindow {
    std::span<std::byte> bytes;
    RemoteRegion remote;
  };
  /// Pins the memory, the first time. FailedPrecondition: this client has none (ClientOptions).
  absl::StatusOr<ScanWindow> RegisterScanWindow();
  /// SENDs a request whose reply waits, beside those of other calls, until AwaitAside. REQUIRES: the last one
  /// was awaited.
  absl::Status PostAside(const Request& request);
  absl::Status AwaitAside() { return Await(aside_.done); }
  /// The reply to the last one; not found, where its connection is gone. REQUIRES: AwaitAside was OK.
  Answer aside() const { return {aside_.reply, {aside_.text.data(), aside_.reply.behind_size}}; }
  /// Whose pages are in the window; null: nobody's.
  ClientScan::Impl*& scan_window_owner() { return scan_window_owner_; }
  /// A cursor that nobody needs any more; 0: none.
  std::uint64_t& abandoned_cursor() { return abandoned_cursor_; }

 private:
  Session(Dialer dialer, const ClientOptions& options, const Clock& clock);

  static std::uint64_t RandomClientId();  // not 0
  absl::Status Register();
  // Of handshake.cc.
  /// Connects over `connection`, or, with a token, over one that is dialled behind it: from now on the one.
  /// Not OK: it is broken.
  absl::Status Open(std::unique_ptr<rdma::Connection> connection, TimePoint deadline);
  absl::StatusOr<HelloNonce> AskForNonce(rdma::Connection& connection, const HelloRequest& hello,
                                         TimePoint deadline);
  absl::Status Join(std::unique_ptr<rdma::Connection> connection, const HelloRequest& hello,
                    TimePoint deadline);
  absl::Status Greet(const HelloRequest& hello, TimePoint deadline);
  absl::Status AdoptSuperblock();
  // Of reconnect.cc.
  void ForgetServer();
  absl::Status OpenAnother(TimePoint deadline);
  /// Start's; where there is a dialer, with more than one attempt.
  absl::Status OpenFirst(std::unique_ptr<rdma::Connection> connection);
  TimePoint NextAttemptEnds(TimePoint deadline);
  absl::StatusOr<std::optional<Answer>> AskForOutcome();

  /// With so many bytes of the payload buffer, which stand where Call puts them, behind it.
  absl::StatusOr<Answer> Exchange(const Request& request, std::size_t inline_size);

  absl::Status Read(std::uint64_t offset, std::size_t buffer_offset, std::size_t size);
  void ReportReads();
  /// Takes completions until `done`, which Take sets.
  absl::Status Await(const bool& done);
  absl::Status Take(const rdma::Completion& completion);
  // Of scan_window.cc.
  absl::Status OfferScanWindow();
  bool TakeAside(const Reply& reply, std::string_view behind);

  const Clock& clock_;
  const std::uint64_t forks_ = Forks::Count();
  const Dialer dialer_;  // null: there is one connection, and no other
  const ClientOptions options_;
  std::string secret_;  // of the token; empty: there is none
  std::optional<TimePoint> deadline_;
  absl::Status broken_;
  InUse in_use_;
  ClientCounters counters_;

  // Of the server, as it said when we connected.
  HelloReply hello_;
  StoreShape shape_;
  std::chrono::milliseconds grace_{0};
  ServerTime server_time_;
  bool store_is_loading_ = false;
  IndexView view_;
  std::vector<std::uint64_t> bucket_offsets_;  // of each segment's first main bucket; 0: not known

  LocationCache locations_;
  SpeculationBudget budget_;
  std::optional<SegmentGenerations> generations_;  // from AdoptSuperblock on

  AccessHints reads_;
  TimePoint reads_reported_;  // when a request was last sent for that alone

  // What is under way: READs, and at most one request.
  std::array<rdma::Completion, 8>
      completions_;  // those of a look; here, so that none begins with writing them
  rdma::Spinner spinner_;
  std::size_t reads_under_way_ = 0;
  bool reads_done_ = true;  // there are none
  bool send_done_ = true;
  bool reply_done_ = true;
  std::uint64_t last_request_id_ = 0;
  std::uint64_t unacknowledged_write_ = 0;  // the request id of the call's write, if it was sent; 0: none

  // Who this is to the server (HelloRequest::client); 0: nobody that comes again.
  std::uint64_t name_ = 0;
  bool returns_ = false;                         // the server has accepted the name
  RefusalReason refusal_ = RefusalReason{};      // of the last attempt, if that was refused
  int unanswered_attempts_ = 0;                  // since the last connection was made
  bool forgotten_ = false;                       // the name before was, and there was no connection since
  std::vector<RegisteredBuffer*> user_buffers_;  // their registrations end before the connection
  std::array<std::byte, kMaxReplySize> reply_;
  std::size_t reply_size_ = 0;

  struct Aside {
    std::uint64_t id = 0;
    bool sent = true;  // its SEND is done
    bool done = true;  // its reply has come
    Reply reply;
    std::array<char, kMaxReplyBehind> text;
  };
  Aside aside_;
  ClientScan::Impl* scan_window_owner_ = nullptr;
  std::uint64_t abandoned_cursor_ = 0;

  // Destroyed in reverse: the registrations go before the connection, and all before the memory.
  std::vector<std::byte> buffer_;
  std::unique_ptr<rdma::SharedMemory> scan_window_;  // null: none
  std::unique_ptr<rdma::Connection> connection_;
  rdma::MappedRegion* mapped_ = nullptr;  // the connection's, of hello_.memory; null: there is none
  std::unique_ptr<rdma::Registration> registration_;
  std::unique_ptr<rdma::Registration> scan_window_registration_;  // null: not yet
};

}  // namespace remora
