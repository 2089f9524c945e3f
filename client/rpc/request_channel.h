// Requests of which several are under way at once: each has a piece of the slice, and a credit of the server.
//
//   RequestChannel channel(session);
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
#include "client/rpc/payload_stream.h"
#include "client/rpc/staging_ring.h"
#include "client/session/session.h"
#include "rdma/transport.h"
#include "store/base/absl_view.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/multi_put.h"

namespace remora {

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

/// Thread Safety: none.
class RequestChannel {
 public:
  /// The session has no other request under way as long as there are some of these (Session::Settle).
  explicit RequestChannel(Session& session);

  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  bool empty() const { return in_flight_ == 0; }

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
  /// The next part of a large value, of kPartBytes at most. `memory`: whose it is, for IsGathering; kNobody:
  /// it is copied. REQUIRES: the stream is not empty.
  static constexpr std::size_t kPartBytes = std::size_t{128} << 10;
  absl::StatusOr<bool> SendPart(PayloadStream& stream, std::uint32_t owner, std::uint32_t memory);

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
    slice_.Clear();
    in_flight_ = 0;
  }

  /// Whether the device may be at a value that was to be gathered for this owner, abandoned or not.
  bool IsGathering(std::uint32_t owner) const;
  /// For whom the device has just gathered one; or kNobody. REQUIRES: a completion of this kind that is ok.
  std::uint32_t TakeSend(const rdma::Completion& completion);

  using Callers = std::array<std::uint32_t, kMaxListedPuts>;  // of a request that is no list, one

  struct Ended {
    Callers owner;
    Session::Answer answer;  // its text until Session::PostReceive
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

  Session& session_;
  StagingRing slice_;
  std::size_t in_flight_ = 0;
  std::array<InFlightRequest, Session::kMaxInFlight> requests_;
};

template <typename Each>
absl::Status RequestChannel::Ended::ForEach(const Each& each) const {
  if (listed == 0) {
    each(owner[0], answer);
    return absl::OkStatus();
  }
  Session::Answer one = answer;
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
