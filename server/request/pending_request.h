// A request that is not answered yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/connection/client_session.h"
#include "server/connection/client_table.h"
#include "store/base/clock.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/multi_put.h"
#include "store/read/cold_read.h"

namespace remora {

/// State of a multi-put.
struct MultiPutState {
  MultiPutOutcomes outcomes;                                 // outcome of each put that was started
  std::array<std::uint64_t, kMaxPutsPerMessage> versions{};  // version of each put that succeeded
  std::size_t waiting = 0;                                   // number of puts that wait for an fsync
  bool is_postponed = false;                                 // some puts are not started yet
  std::size_t text_of = kMaxPutsPerMessage;                  // number of the first put that failed
  std::string text{};                                        // error text of that put
  std::uint16_t cause = 0;                                   // CauseFlags of that put

  bool is_over() const { return waiting == 0 && !is_postponed; }
};

/// Reads of the records that a request to write needs, and that were only on disk (parked_writes.h).
struct WriteReads {
  ClientSession* session = nullptr;                  // null: it is gone
  std::vector<std::unique_ptr<ColdRead>> results{};  // by the places of the writes; null: none, or in flight
  std::size_t in_flight = 0;
  int times_put_off = 0;  // because a write needed a read
};

/// A request and the session to answer it in. The key of a write points into its staging buffer.
struct PendingRequest {
  ClientSession* session;  // null: it is gone
  Request request;
  ClientEntry* client = nullptr;  // null: no client ID. Of a write that is being committed, it is there
  // Number of its writes in the group: one, those of a batch or multi-put, or none (it is rejected).
  std::size_t writes = 1;
  std::shared_ptr<MultiPutState> multi_put{};  // set if a multi-put was started and is not over
  std::shared_ptr<WriteReads> reads{};         // set if the request is parked, or was
  TimePoint not_before{};                      // time of the next try of a postponed request

  void Forget(const ClientSession& gone) {
    if (session == &gone) session = nullptr;
  }
};

}  // namespace remora
