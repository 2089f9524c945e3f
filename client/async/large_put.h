// State of the large value that an AsyncClient is putting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/async/operation.h"
#include "client/put/large_put.h"
#include "store/format/wire/remote_region.h"

namespace remora {

/// The put of a large value. There is one at a time, because a connection has one reservation at a time
/// (store/format/wire/messages.h):
///
///   kReserve ◀▶ kReserving ─▶ kFilling ─▶ kCommit ─▶ kCommitting ─▶ kNone
///                   └────────────┴───────────┴─▶ kReturn ─▶ kReturning ─▶ kNone
///
/// An operation that ends early detaches from it. Then the client returns the reservation before it makes
/// another one.
struct LargePut {
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

  /// Most unanswered parts at once: the server copies one while the client copies the next.
  static constexpr std::size_t kMostParts = 2;

  /// Returns whether writes that began after this one have to wait.
  bool is_in_front() const {
    return operation != nullptr && step != Step::kNone && step != Step::kCommitting;
  }

  Step step = Step::kNone;
  AsyncOperation* operation = nullptr;    // null once the operation has ended
  std::optional<PayloadStream> stream{};  // of the key and value
  RemoteRegion region{};                  // the grant; size 0: the client sends the value in parts
  std::uint64_t written = 0;              // bytes written to the region
  SgeList filled{};                       // bytes to write next: in the operation's buffer, or its memory
  std::size_t turn = 0;                   // the half that is filled next: odd or even
  std::size_t parts = 0;                  // unanswered parts
};

}  // namespace remora
