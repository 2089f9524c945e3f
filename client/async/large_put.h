// Puts a large value for an AsyncClient, by the steps of client/put/large_put.cc, but without waiting.
//
// Writes that began later are sent after the commit of this one, so the server executes them after it. Reads
// are not delayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "client/async/connection.h"
#include "client/async/operation.h"
#include "client/async/operation_buffers.h"
#include "client/async/operation_table.h"
#include "client/async/reads.h"
#include "client/put/large_put.h"
#include "client/rpc/request_channel.h"
#include "store/format/wire/remote_region.h"

namespace remora {

/// The put of a large value. There is one at a time, because a connection has one reservation at a time
/// (store/format/wire/messages.h):
///
///   kReserve ◀▶ kReserving ─▶ kFilling ─▶ kCommit ─▶ kCommitting ─▶ kNone
///                   └────────────┴───────────┴─▶ kReturn ─▶ kReturning ─▶ kNone
///
/// An operation that ends early detaches from it. Then the client returns the reservation before it makes
/// another one. An error of a method is the connection's: it breaks.
///
/// Thread safety: none. Ownership: the objects passed to the constructor outlive it.
class AsyncLargePut {
 public:
  AsyncLargePut(AsyncConnection& connection, OperationTable& operations, AsyncReads& reads,
                OperationBuffers& buffers)
      : connection_(connection), operations_(operations), reads_(reads), buffers_(buffers) {}

  /// Returns whether a put may begin.
  bool is_idle() const { return put_.step == Step::kNone; }
  /// Returns whether writes that began after this one have to wait.
  bool is_in_front() const {
    return put_.operation != nullptr && put_.step != Step::kNone && put_.step != Step::kCommitting;
  }
  /// Returns whether the client has sent the commit, and the server has not answered it.
  bool is_committing() const { return put_.step == Step::kCommitting; }

  /// Begins the operation's put. REQUIRES: is_idle.
  void Begin(AsyncOperation& operation);
  /// Takes the next step, if one can be taken now. Returns whether it did something. REQUIRES: the connection
  /// is up.
  absl::StatusOr<bool> Drive();
  /// Takes the completion of the fence behind a WRITE.
  void TakeFence(AsyncOperation& operation);
  absl::Status TakeReply(const ServerReply& answer);
  /// Detaches the put from its operation, which ends early. Does nothing if it is another operation's.
  void Detach(const AsyncOperation& operation);
  /// Drops the put, whose reservation ended with the connection. Returns its operation; null if that has
  /// ended.
  AsyncOperation* Drop();

 private:
  enum class Step : std::uint8_t {
    kNone = 1,    // there is no reservation
    kReserve,     // the client has to send the request to reserve
    kReserving,   // the server has to answer it
    kFilling,     // the client has to send bytes
    kCommit,      // the client has to send the commit
    kCommitting,  // the server has to answer it
    kReturn,      // the client has to send the return of the reservation
    kReturning,   // the server has to answer it
  };

  struct State {
    Step step = Step::kNone;
    AsyncOperation* operation = nullptr;    // null once the operation has ended
    std::optional<PayloadStream> stream{};  // of the key and value
    RemoteRegion region{};                  // the grant; size 0: the client sends the value in parts
    std::uint64_t written = 0;              // bytes written to the region
    SgeList filled{};                       // bytes to write next: in the operation's buffer, or its memory
    std::size_t turn = 0;                   // the half that is filled next: odd or even
    std::size_t parts = 0;                  // unanswered parts
  };

  /// Most unanswered parts at once: the server copies one while the client copies the next.
  static constexpr std::size_t kMaxParts = 2;

  absl::StatusOr<bool> Send(const RequestSpec& asked, std::uint64_t value_hash, Step next);
  absl::StatusOr<bool> SendParts(const AsyncOperation& operation);
  absl::StatusOr<bool> WriteToGrant(AsyncOperation& operation);
  void TakeGrant(const ServerReply& answer);

  AsyncConnection& connection_;
  OperationTable& operations_;
  AsyncReads& reads_;
  OperationBuffers& buffers_;
  State put_;
};

}  // namespace remora
