// Requests of which several are in flight at once: each has a piece of the slice, and a credit of the server.
//
//   channel.Send(...)                 WRITE payload, SEND request
//   completion kSend     ->  TakeSend
//   completion kReceive  ->  TakeReply: whose it is, and what the server says
//
// A request's buffers are the device's until its SEND is complete, and its piece of the slice the server's
// until it has answered. So a request that nobody waits for any more keeps both, and its credit, till then.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/counters.h"
#include "client/region/session_buffers.h"
#include "client/rpc/payload_stream.h"
#include "client/rpc/staging_ring.h"
#include "client/session/access_hints.h"
#include "client/session/server_view.h"
#include "rdma/transport.h"
#include "store/base/absl_view.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/multi_put.h"

namespace remora {

static_assert(kMaxPayloadSize % StagingRing::kAlignment == 0, "the largest payload fits into the ring");

inline constexpr std::string_view kStrayReply = "the server sent a reply that answers nothing; connect again";

/// A reply, checked; `behind` says why when its status is not kOk.
struct ServerReply {
  Reply reply;
  std::string_view behind;
};

/// A copy of a reply that is awaited, so that its buffer can be offered again at once.
class StoredReply {
 public:
  void Expect() { is_here_ = false; }
  void Take(const ServerReply& reply) {
    reply_ = reply.reply;
    reply.behind.copy(text_.data(), text_.size());
    is_here_ = true;
  }
  bool is_here() const { return is_here_; }
  /// REQUIRES: is_here. Until the next Expect.
  ServerReply view() const { return {reply_, {text_.data(), reply_.behind_size}}; }

 private:
  bool is_here_ = true;  // also where none was ever expected
  Reply reply_;
  std::array<char, kMaxReplyBehind> text_;
};

/// A request to be sent. For Operation::kOutcome, `about` alone says more.
struct RequestSpec {
  Operation operation = Operation::kPing;
  std::string_view key{};
  std::uint64_t key_hash = 0;
  std::string_view value{};
  PutOptions options{};
  std::uint64_t about = 0;                      // the request id of a write
  std::optional<std::uint32_t> local_key = {};  // of the value, as SentValue
};

/// The requests of one connection, in flight. It does not wait: a driver polls the connection, and hands it
/// the completions of SENDs and receives.
///
/// More than 25 methods: for each kind of request one, and what the drivers of three kinds (blocking, in
/// batches, asynchronous) ask of those in flight.
///
/// Thread safety: none. Ownership: what it is made with, and the connection until Clear, outlive it.
class RequestChannel {
 public:
  static constexpr std::size_t kMaxInFlight = SessionBuffers::kMaxInFlight;

  // Callers that are no operation's number.
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  static constexpr std::uint32_t kLargePut = kNobody - 1;  // of an AsyncClient
  static constexpr std::uint32_t kCall = kNobody - 2;      // a call that waits
  static constexpr std::uint32_t kScanPage = kNobody - 3;  // a page that comes beside the calls

  /// `asks_later`: of writes whose replies are lost, the server will be asked (kOutcome).
  RequestChannel(SessionBuffers& buffers, ServerView& server, AccessHints& hints, ClientCounters& counters,
                 bool asks_later)
      : buffers_(buffers),
        server_(server),
        hints_(hints),
        counters_(counters),
        asks_later_(asks_later),
        staging_(kMaxPayloadSize) {}

  /// Sends over this connection from now on, and offers it the buffers for replies. REQUIRES: they are
  /// registered with it.
  absl::Status Bind(rdma::ClientConnection& connection);
  /// The connection ends: forgets all that was in flight.
  void Clear();

  bool empty() const { return in_flight_ == 0; }
  /// Whether no request in flight has staging memory: then all of it, and the buffer for it, are the caller's
  /// until the next request.
  bool has_all_staging() const { return staging_.empty(); }
  /// The most requests in flight that this client and its server take.
  std::size_t credits() const { return std::min(server_.credits(), kMaxInFlight); }
  std::uint64_t last_request_id() const { return last_request_id_; }

  /// Sends a request for `owner`, which the reply will name. What it says is copied, unless the value is
  /// gathered: then it is to stay as long as IsGathering(owner). Takes along the hashes
  /// of keys that were read lately. False: there is no credit, or no room in the slice, right now; or, of a
  /// client that may ask later, an earlier request is unanswered which the server would lose sight of
  /// (store/format/wire/messages.h). Errors are the connection's.
  absl::StatusOr<bool> Send(const RequestSpec& asked, std::uint32_t owner);

  /// Puts that may share a message, in their order. Points to what it was given.
  class List {
   public:
    struct Put {
      std::string_view key;
      std::string_view value;
      std::optional<std::chrono::milliseconds> ttl;
      std::uint32_t owner;
    };

    /// Whether any list takes such a put. One with a condition goes alone, so that the server can say in full
    /// why it does not hold.
    static bool Takes(const PutOptions& options) { return options.condition.is_none(); }

    /// `most`: kMaxListedPuts at most.
    explicit List(std::size_t most = kMaxListedPuts) : most_(most) {}
    /// False: it goes with none, not with these, or there is no room for it.
    bool Add(std::string_view key, std::string_view value, const PutOptions& options, std::uint32_t owner) {
      const std::size_t bytes = bytes_ + ListedPutSize(key, value);
      if (puts_.size() == most_ || bytes > kMaxPutListBytes || !Takes(options)) return false;
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
    absl::InlinedVector<Put, kMaxListedPuts> puts_;
  };
  /// Whether it is to be known later what became of the puts of a list, each by itself.
  enum class Listing : std::uint8_t { kWithoutIds = 1, kWithIds = 2 };
  /// The same of a list of puts (store/format/wire/multi_put.h); kWithIds: of MostListed() of them at most.
  /// REQUIRES: there are some, and they are in bounds.
  absl::StatusOr<bool> SendList(const List& list, Listing listing);
  /// How many puts a list may have, if it is to be known later what became of them: more could not be under
  /// way twice, so that the server has some to do while the client takes the answers.
  std::size_t MostListed() const;

  /// The same of a request that has nothing in the slice: kReserve and kCommit of a large value, of which it
  /// says the sizes. `value_hash`: of a kCommit.
  absl::StatusOr<bool> SendSizes(const RequestSpec& asked, std::uint64_t value_hash, std::uint32_t owner);
  /// The next part of a large value, of `most` bytes at most. `memory`: whose it is, for IsGathering;
  /// kNobody: it is copied. REQUIRES: the stream is not empty.
  static constexpr std::size_t kPartBytes = std::size_t{128} << 10;
  absl::StatusOr<bool> SendPart(PayloadStream& stream, std::uint32_t owner, std::uint32_t memory,
                                std::size_t most = kPartBytes);
  /// As many bytes as the largest part may have.
  static constexpr std::size_t kMaxPart = kMaxPayloadSize / StagingRing::kAlignment * StagingRing::kAlignment;
  /// The same of a request that says all in itself. Its id is the channel's to choose.
  absl::StatusOr<bool> SendBare(Request request, std::uint32_t owner);

  /// The owner does not want to know any more.
  void Abandon(std::uint32_t owner);

  /// The greatest request id of a write that is not answered, and that nobody waits for; 0: there is none.
  std::uint64_t LastAbandonedWrite() const;

  /// The connection has broken: calls `each`(owner, request id, key, value) for those that somebody still
  /// waits for, of a list for each, and forgets all. Until the next connection is there, `key` and `value`
  /// are where they were; of kOutcome both are empty, as is a value that was gathered.
  template <typename Each>
  void Lose(const Each& each) {
    for (InFlightRequest& in_flight : requests_) {
      std::string_view list = in_flight.value;
      for (std::size_t i = 0; i < in_flight.callers(); ++i) {
        if (in_flight.listed > 0) {
          const BatchWrite put = TakeBatchWrite(&list).value();
          in_flight.key = put.key;
          in_flight.value = put.value;
        }
        if (in_flight.owner[i] == kNobody) continue;
        each(in_flight.owner[i], in_flight.first_id + i, in_flight.key, in_flight.value);
      }
      in_flight = {};
    }
    staging_.Clear();
    in_flight_ = 0;
  }

  /// Whether the device may be at a value that was to be gathered for this owner, abandoned or not.
  bool IsGathering(std::uint32_t owner) const;
  /// For whom the device has just gathered one; or kNobody. REQUIRES: a completion of this kind that is ok.
  std::uint32_t TakeSend(const rdma::Completion& completion);

  using Callers = std::array<std::uint32_t, kMaxListedPuts>;  // of a request that is no list, one

  struct Ended {
    Callers owner;
    ServerReply answer;  // its text until PostReceive
    /// Nobody looked at the generations between request and reply, so the place in the reply may be learned.
    bool may_learn = false;
    bool is_write = false;
    std::uint32_t listed = 0;    // puts of a list; 0: it was none
    std::uint64_t first_id = 0;  // of a list that is remembered: of its first put

    /// Calls each(owner, answer), of a list for each put, and whoever wants to know. Unavailable: the reply
    /// is none to a list of this length.
    template <typename Each>
    absl::Status ForEach(const Each& each) const;
  };
  /// Unavailable: it answers nothing that was asked.
  absl::StatusOr<Ended> TakeReply(const rdma::Completion& completion);
  /// Offers the buffer of a receive's completion again.
  absl::Status PostReceive(std::uint64_t index);

 private:
  struct InFlightRequest {
    std::uint64_t request_id = 0;  // 0: free
    std::uint64_t first_id = 0;    // of a list that is remembered: of its first put; else as request_id
    Callers owner;
    std::uint32_t memory = kNobody;  // whose it is that is gathered until the SEND is done
    std::uint32_t piece = 0;
    std::uint32_t listed = 0;  // as Ended
    bool has_piece = false;
    bool is_write = false;
    bool send_done = false;
    bool reply_done = false;
    std::uint64_t looks = 0;
    std::string_view key;  // in the session's payload buffer
    std::string_view value;

    std::size_t callers() const { return request_id == 0 ? 0 : std::max<std::size_t>(listed, 1); }
  };

  Request NextRequest(Operation operation, std::size_t key_size, std::size_t value_size, std::size_t ids = 1);
  /// Puts {key, value} at the beginning of `payload`, except what is gathered from where it is. Returns what
  /// is then to be WRITTEN: that, and what stands behind it in `payload`.
  SgeList Fill(std::span<std::byte> payload, std::string_view key, const SentValue& value) const;
  absl::Status PostWrite(const SgeList& from, std::size_t offset);
  std::optional<ServerReply> Decode(const rdma::Completion& completion);
  bool MayBeLostSightOf(std::size_t ids) const;
  /// Whether there is a credit, and a request may take it, with so many ids.
  bool HasCredit(std::size_t ids = 1) const;
  /// A free one for the request, which has that piece.
  InFlightRequest& Begin(const Request& request, std::uint32_t owner,
                         const std::optional<StagingRing::Piece>& piece);
  absl::Status Post(const InFlightRequest& in_flight, const Request& request);
  /// Behind the room for the request, the buffer holds what goes along.
  absl::Status Post(const InFlightRequest& in_flight, const Request& request, std::span<std::byte> buffer);
  void FreeIfDone(InFlightRequest& in_flight);

  static constexpr std::string_view kOtherWhy =
      "it was not done for another reason than one before it, of which alone the server said more";

  SessionBuffers& buffers_;
  ServerView& server_;
  AccessHints& hints_;
  ClientCounters& counters_;
  const bool asks_later_;
  rdma::ClientConnection* connection_ = nullptr;
  StagingRing staging_;
  std::uint64_t last_request_id_ = 0;  // never the same again, also over later connections
  std::size_t in_flight_ = 0;
  std::array<InFlightRequest, kMaxInFlight> requests_;
};

template <typename Each>
absl::Status RequestChannel::Ended::ForEach(const Each& each) const {
  if (listed == 0) {
    each(owner[0], answer);
    return absl::OkStatus();
  }
  ServerReply one = answer;
  const bool is_told = answer.reply.status == ReplyStatus::kOk;  // of each, and not of all together
  PutListOutcomes outcomes;
  if (is_told && !outcomes.Decode(listed, &one.behind)) return absl::UnavailableError(AbslView(kStrayReply));
  const std::string_view first_text = one.behind;  // why the first that was not done was not
  ReplyStatus first_why = ReplyStatus::kOk;
  for (std::size_t i = 0; i < listed; ++i) {
    one.reply.request_id = first_id + i;
    if (is_told) {
      const PutListOutcomes::Outcome& outcome = outcomes[i];
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
