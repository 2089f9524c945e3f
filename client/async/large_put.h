// The large value that an AsyncClient is putting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/async/operation.h"
#include "client/put/large_put.h"
#include "store/format/wire/remote_region.h"

namespace remora {

/// One at a time, for a connection has one reservation at a time (store/format/wire/messages.h):
///
///   kReserve ◀▶ kReserving ─▶ kFilling ─▶ kCommit ─▶ kCommitting ─▶ kNone
///                   └────────────┴───────────┴─▶ kReturn ─▶ kReturning ─▶ kNone
///
/// An operation that ends early leaves it: what was reserved is given back, before any other is reserved.
struct LargePut {
  enum class Step : std::uint8_t {
    kNone = 1,    // nothing is reserved
    kReserve,     // to be sent
    kReserving,   // to be answered
    kFilling,     // bytes are to be sent
    kCommit,      // to be sent
    kCommitting,  // to be answered
    kReturn,      // to be sent
    kReturning,   // to be answered
  };

  /// Parts that are unanswered at once: one is copied there while the next is copied here.
  static constexpr std::size_t kMostParts = 2;

  /// Whether writes that were begun behind it have to wait.
  bool is_in_front() const {
    return operation != nullptr && step != Step::kNone && step != Step::kCommitting;
  }

  Step step = Step::kNone;
  AsyncOperation* operation = nullptr;    // null: it has ended
  std::optional<PayloadStream> stream{};  // of its key and value
  RemoteRegion region{};                  // granted; size 0: it is sent in parts
  std::uint64_t written = 0;              // bytes of the region
  SgeList filled{};                       // to be written next: of the operation's buffer, or its memory
  std::size_t turn = 0;                   // which half is filled next: odd or even
  std::size_t parts = 0;                  // unanswered
};

}  // namespace remora
