// The requests of a client, of which several are in flight at once. Each has a piece of the staging buffer
// (the staging buffer) and a credit of the server.
//
//   channel.Send(...)                 WRITE payload, SEND request
//   completion kSend     ->  TakeSend
//   completion kReceive  ->  TakeReply: the owner, and the server's answer
//
// A request's buffers belong to the device until its SEND completes. Its piece of the staging buffer belongs
// to the server until the server has answered. So a request that its owner abandoned keeps both, and its
// credit, until then.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cache/read_cache.h"
#include "client/counters.h"
#include "client/region/session_buffers.h"
#include "client/rpc/payload_stream.h"
#include "client/session/access_hints.h"
#include "client/session/server_view.h"
#include "rdma/transport.h"
#include "store/base/absl_view.h"
#include "store/base/piece_ring.h"
#include "store/base/shortage.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/multi_put.h"

namespace remora {

static_assert(kMaxPayloadSize % PieceRing::kAlignment == 0, "the largest payload fits into the ring");

inline constexpr std::string_view kStrayReply = "the server sent a reply that answers nothing; connect again";

/// A checked reply. `behind` is the text behind it: the reason when its status is not kOk; or the value of a
/// locate (ReplyFlag::kHasValue).
struct ServerReply {
  Reply reply;
  std::string_view behind;
  /// Count of refreshes before the request was posted, for ReadCache::Learn; 0: unknown.
  SegmentGenerations::Number refreshes = 0;
};

/// Returns Unavailable, with the cause that the server named (store/base/shortage.h). REQUIRES: the reply has
/// the status kDurableTier.
inline absl::Status DurableTierError(const ServerReply& answer) {
  absl::Status status = absl::UnavailableError(AbslView(answer.behind));
  if ((answer.reply.flags & ReplyFlag::kShortage) != 0) status = MarkedAsShortage(std::move(status));
  if ((answer.reply.flags & ReplyFlag::kDisk) != 0) status = MarkedAsDiskFailure(std::move(status));
  return status;
}

/// A copy of an awaited reply, so that the client can offer the reply's buffer to the device again at once.
class StoredReply {
 public:
  void Expect() { is_here_ = false; }
  void Take(const ServerReply& reply) {
    reply_ = reply.reply;
    reply.behind.copy(text_.data(), text_.size());
    refreshes_ = reply.refreshes;
    is_here_ = true;
  }
  bool is_here() const { return is_here_; }
  /// Returns the reply, valid until the next Expect. REQUIRES: is_here.
  ServerReply view() const { return {reply_, {text_.data(), reply_.behind_size}, refreshes_}; }

 private:
  bool is_here_ = true;  // also before the first Expect
  Reply reply_;
  std::array<char, kMaxValueBehind> text_;
  SegmentGenerations::Number refreshes_ = 0;
};

/// A request to send. Operation::kQueryCompletion only uses `about`.
struct RequestSpec {
  Operation operation = Operation::kPing;
  std::string_view key{};
  std::uint64_t key_hash = 0;
  std::string_view value{};
  PutOptions options{};
  std::uint64_t about = 0;                      // the request ID of a write
  std::optional<std::uint32_t> local_key = {};  // of the value, as in SentValue
};

/// The requests in flight on one connection. The channel does not wait: a driver polls the connection, and
/// passes it the completions of SENDs and receives.
///
/// The class has more than 25 methods: one for each kind of request, and those that the drivers of three
/// kinds (blocking, batched, asynchronous) call for requests in flight.
///
/// Thread safety: none. Ownership: the objects passed to the constructor outlive it, as does the connection
/// until Clear.
class RequestChannel {
 public:
  static constexpr std::size_t kMaxInFlight = SessionBuffers::kMaxInFlight;

  // Owners of requests that are not numbers of operations:
  static constexpr std::uint32_t kNoOwner = ~std::uint32_t{0};
  static constexpr std::uint32_t kLargePut = kNoOwner - 1;  // of an AsyncClient
  static constexpr std::uint32_t kCall = kNoOwner - 2;      // a call that waits
  static constexpr std::uint32_t kScanPage = kNoOwner - 3;  // a page that comes beside the calls
  static constexpr std::uint32_t kLease = kNoOwner - 4;     // a ping of an AsyncClient that asks for a lease

  /// Makes a channel. `asks_later`: the client asks the server about writes whose replies are lost
  /// (kQueryCompletion).
  RequestChannel(SessionBuffers& buffers, ServerView& server, const ReadCache& cache, AccessHints& hints,
                 ClientCounters& counters, bool asks_later)
      : buffers_(buffers),
        server_(server),
        cache_(cache),
        hints_(hints),
        counters_(counters),
        asks_later_(asks_later),
        staging_(kMaxPayloadSize) {}

  /// Sends over this connection from now on, and offers it the buffers for replies. REQUIRES: the buffers are
  /// registered with it.
  absl::Status Bind(rdma::ClientConnection& connection);
  /// Forgets all requests in flight, because the connection ends.
  void Clear();

  bool empty() const { return in_flight_ == 0; }
  /// Returns whether no request in flight has staging memory. Then all of it, and its buffer, belong to the
  /// caller until the next request.
  bool has_all_staging() const { return staging_.empty(); }
  /// Returns the largest number of requests in flight that both this client and its server allow.
  std::size_t credits() const { return std::min(server_.credits(), kMaxInFlight); }
  std::uint64_t last_request_id() const { return last_request_id_; }

  /// Sends a request for `owner`, to which TakeReply assigns the reply. The channel copies key and value,
  /// unless it gathers the value: then the value must not change as long as IsGathering(owner). The message
  /// takes along the hashes of keys that were read lately. Returns false if there is now no credit, or no
  /// space in the staging buffer. With `asks_later`, also if the server would forget an earlier request that
  /// is still unanswered (store/format/wire/messages.h). Errors are the connection's.
  absl::StatusOr<bool> Send(const RequestSpec& asked, std::uint32_t owner);

  /// The puts of a multi-put, in their order. It points to the caller's keys and values.
  class List {
   public:
    struct Put {
      std::string_view key;
      std::string_view value;
      std::optional<std::chrono::milliseconds> ttl;
      std::uint32_t owner;
    };

    /// Returns whether lists take a put with these options. A put with a condition has its own message, so
    /// that the server can state in full why the condition does not hold.
    static bool Takes(const PutOptions& options) { return options.condition.is_none(); }

    /// Makes an empty list for up to `most` puts. REQUIRES: most <= kMaxPutsPerMessage.
    explicit List(std::size_t most = kMaxPutsPerMessage) : most_(most) {}
    /// Adds a put. Returns false if it cannot share a message at all or with these puts, or if there is no
    /// space for it.
    bool Add(std::string_view key, std::string_view value, const PutOptions& options, std::uint32_t owner) {
      const std::size_t bytes = bytes_ + MultiPutEntrySize(key, value);
      if (puts_.size() == most_ || bytes > kMaxMultiPutBytes || !Takes(options)) return false;
      if (puts_.empty()) durability_ = options.durability;
      if (options.durability != durability_) return false;
      bytes_ = bytes;
      puts_.push_back({key, value, options.ttl, owner});
      return true;
    }

    std::size_t size() const { return puts_.size(); }
    std::size_t bytes() const { return bytes_; }
    std::span<const Put> puts() const { return puts_; }
    std::optional<Durability> durability() const { return durability_; }

   private:
    const std::size_t most_;
    std::size_t bytes_ = 0;
    std::optional<Durability> durability_;
    absl::InlinedVector<Put, kMaxPutsPerMessage> puts_;
  };
  /// Selects whether the client can ask later for the outcome of each put of a list.
  enum class Listing : std::uint8_t { kWithoutIds = 1, kWithIds = 2 };
  /// Sends a multi-put (store/format/wire/multi_put.h), as Send does. kWithIds: the list has at most
  /// MaxListedPuts() puts. REQUIRES: the list is not empty, and its puts are in bounds.
  absl::StatusOr<bool> SendList(const List& list, Listing listing);
  /// Returns how many puts a list kWithIds may have. With more, two lists could not be in flight at once. Two
  /// are needed so that the server has work while the client takes the answers of the other one.
  std::size_t MaxListedPuts() const;

  /// Sends a request without bytes in the staging buffer, as Send does: kReserve or kFinishLargePut of a
  /// large value, with the sizes of key and value. `value_hash` is for kFinishLargePut.
  absl::StatusOr<bool> SendSizes(const RequestSpec& asked, std::uint64_t value_hash, std::uint32_t owner);
  /// Sends the next part of a large value, of at most kPartBytes, as Send does. The staging buffer has space
  /// for two. `memory` is the owner of the gathered memory, for IsGathering; kNoOwner: the channel copies the
  /// part. REQUIRES: the stream is not empty.
  absl::StatusOr<bool> SendPart(PayloadStream& stream, std::uint32_t owner, std::uint32_t memory);
  static constexpr std::size_t kPartBytes = std::size_t{128} << 10;
  /// Sends a request that consists of its header alone, as Send does. The channel chooses its ID.
  absl::StatusOr<bool> SendBare(Request request, std::uint32_t owner);

  /// Gives up the owner's request: its reply will be ignored.
  void Abandon(std::uint32_t owner);

  /// Returns the greatest request ID of an unanswered write that its owner has abandoned; 0: there is none.
  std::uint64_t LastAbandonedWrite() const;

  /// Forgets all requests, because the connection has broken. Before, it calls `each`(owner, request ID, key,
  /// value) for each request, and each put of a list, whose owner still waits. `key` and `value` stay valid
  /// until the next connection is made. For kQueryCompletion both are empty; so is a value that was gathered.
  template <typename Each>
  void Lose(const Each& each) {
    for (InFlightRequest& in_flight : requests_) {
      std::string_view list = in_flight.value;
      for (std::size_t i = 0; i < in_flight.callers(); ++i) {
        if (in_flight.put_count > 0) {
          const BatchWrite put = TakeBatchWrite(&list).value();
          in_flight.key = put.key;
          in_flight.value = put.value;
        }
        if (in_flight.owner[i] == kNoOwner) continue;
        each(in_flight.owner[i], in_flight.first_id + i, in_flight.key, in_flight.value);
      }
      in_flight = {};
    }
    staging_.Clear();
    in_flight_ = 0;
  }

  /// Returns whether the device may still access a value that it gathers for this owner, even if the owner
  /// abandoned its request.
  bool IsGathering(std::uint32_t owner) const;
  /// Takes the completion of a SEND. Returns the owner whose value the device has gathered with it, or
  /// kNoOwner. REQUIRES: the completion is of this kind, and OK.
  std::uint32_t TakeSend(const rdma::Completion& completion);

  using Callers = std::array<std::uint32_t, kMaxPutsPerMessage>;  // one, for a request that is not a list

  /// A request with its reply.
  struct Ended {
    Callers owner;
    ServerReply answer;  // its text is valid until PostReceive
    bool is_write = false;
    std::uint32_t put_count = 0;  // number of puts of a list; 0: the request was not a list
    std::uint64_t first_id = 0;   // of a list kWithIds: the ID of its first put

    /// Calls each(owner, answer): once, or for each put of a list, also for owners that abandoned theirs.
    /// Unavailable: the reply does not fit a list of this length.
    template <typename Each>
    absl::Status ForEach(const Each& each) const;
  };
  /// Takes the completion of a receive. Unavailable: the reply answers no request in flight.
  absl::StatusOr<Ended> TakeReply(const rdma::Completion& completion);
  /// Offers the buffer of a completed receive to the device again.
  absl::Status PostReceive(std::uint64_t index);

 private:
  struct InFlightRequest {
    std::uint64_t request_id = 0;  // 0: free
    std::uint64_t first_id = 0;    // of a list kWithIds: the ID of its first put; else as request_id
    Callers owner;
    std::uint32_t memory = kNoOwner;  // the owner of the memory that is gathered until the SEND completes
    std::uint32_t piece = 0;
    std::uint32_t put_count = 0;  // as in Ended
    bool has_piece = false;
    bool is_write = false;
    bool send_done = false;
    bool reply_done = false;
    SegmentGenerations::Number refreshes = 0;  // as in ServerReply
    std::string_view key;                      // in the session's payload buffer
    std::string_view value;

    std::size_t callers() const { return request_id == 0 ? 0 : std::max<std::size_t>(put_count, 1); }
  };

  Request NextRequest(Operation operation, std::size_t key_size, std::size_t value_size, std::size_t ids = 1);
  /// Copies key and value to the beginning of `payload`, except a value that the device gathers from its own
  /// memory. Returns the list of bytes to WRITE: key, value, and the rest of `payload` behind them.
  SgeList Fill(std::span<std::byte> payload, std::string_view key, const SentValue& value) const;
  absl::Status PostWrite(const SgeList& from, std::size_t offset);
  std::optional<ServerReply> Decode(const rdma::Completion& completion);
  /// Returns whether the server, which keeps the completion records of the last IDs alone, might forget a
  /// request without a reply if a request with `ids` more IDs were sent.
  bool MayBeForgotten(std::size_t ids) const;
  /// Returns whether there is a credit that a request with this number of IDs may take.
  bool HasCredit(std::size_t ids = 1) const;
  /// Returns a free entry, filled for the request with this piece of the staging buffer.
  InFlightRequest& Begin(const Request& request, std::uint32_t owner,
                         const std::optional<PieceRing::Piece>& piece);
  absl::Status Post(const InFlightRequest& in_flight, const Request& request);
  /// Posts the SEND from `buffer`, which has space for the request, and behind it the bytes that go along.
  absl::Status Post(const InFlightRequest& in_flight, const Request& request, std::span<std::byte> buffer);
  void FreeIfDone(InFlightRequest& in_flight);

  static constexpr std::string_view kOtherWhy =
      "multi-put: this put failed for another reason than one before it, and the reply has that one alone; "
      "put it again";

  SessionBuffers& buffers_;
  ServerView& server_;
  const ReadCache& cache_;
  AccessHints& hints_;
  ClientCounters& counters_;
  const bool asks_later_;
  rdma::ClientConnection* connection_ = nullptr;
  PieceRing staging_;
  std::uint64_t last_request_id_ = 0;  // increases, also over later connections
  std::size_t in_flight_ = 0;
  std::array<InFlightRequest, kMaxInFlight> requests_;
};

template <typename Each>
absl::Status RequestChannel::Ended::ForEach(const Each& each) const {
  if (put_count == 0) {
    each(owner[0], answer);
    return absl::OkStatus();
  }
  ServerReply one = answer;
  const bool has_outcomes = answer.reply.status == ReplyStatus::kOk;  // each put has its own outcome
  MultiPutOutcomes outcomes;
  if (has_outcomes && !outcomes.Decode(put_count, &one.behind))
    return absl::UnavailableError(AbslView(kStrayReply));
  const std::string_view first_text = one.behind;  // the reason of the first put that was not done
  ReplyStatus first_why = ReplyStatus::kOk;
  for (std::size_t i = 0; i < put_count; ++i) {
    one.reply.request_id = first_id + i;
    if (has_outcomes) {
      const MultiPutOutcomes::Outcome& outcome = outcomes[i];
      one.reply.status = outcome.status;
      one.reply.version = answer.reply.version + outcome.later;
      one.reply.slot = outcome.slot;
      if (first_why == ReplyStatus::kOk) first_why = outcome.status;
      one.behind = outcome.status == first_why ? first_text : kOtherWhy;
    }
    each(owner[i], one);
  }
  return absl::OkStatus();
}

}  // namespace remora
