#include "tests/linearizability/async_workload.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

namespace remora::linear {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostNamed = 32;

}  // namespace

void AsyncWorker::Do(AsyncClient& client) {
  if (Below(100) == 0)
    most_ = 1 + Below(std::min(std::size_t{1} << Below(6), std::size_t{1} + options_.keys));
  const std::uint64_t dice = Below(100);
  // Without a connection, what begins would not end, but for its deadline: the more nobody knows, the less is
  // found out.
  if (dice < 60 && client.status().ok() && client.in_flight() < most_ && client.free_slots() > 0)
    return BeginSomething(client);
  if (dice == 60 && !begun_.empty()) {
    client.Cancel(begun_[Below(begun_.size())]);
  } else if (dice < 64) {
    client.Wait(client.clock().Now() + milliseconds(Below(3))).IgnoreError();
  } else {
    client.Poll();
  }
}

void AsyncWorker::BeginSomething(AsyncClient& client) {
  ++done_;
  switch (Choose()) {
    case Choice::kExists:
      return Exists(client);
    case Choice::kPut:
    case Choice::kMultiPut:  // it has none
      return Put(client);
    case Choice::kDelete:
      return Delete(client);
    case Choice::kTouch:
      return Touch(client);
    case Choice::kIncrement:
      return Increment(client);
    case Choice::kAppend:
      return Append(client);
    case Choice::kBatch:
      return Batch(client);
    default:
      return Get(client);
  }
}

void AsyncWorker::Run(AsyncClient& client, const Start& start, Ended ended) {
  const AsyncClient::Begun begun = start(
      [this, &client, ended](const AsyncResult& result) {
        ended(result);
        // As programs do that go on where they were told.
        if (Below(8) == 0 && client.status().ok() && client.free_slots() > 0) BeginSomething(client);
      },
      SomeCallOptions());
  if (!begun.ok()) return ended({.status = begun.status()});
  if (begun_.size() < kMostNamed) {
    begun_.push_back(*begun);
  } else {
    begun_[Below(kMostNamed)] = *begun;
  }
}

CallOptions AsyncWorker::SomeCallOptions() {
  if (Below(100) != 0) return {};
  return {.timeout = milliseconds(1 + Below(20))};
}

void AsyncWorker::UseMemoryOf(AsyncClient& client) {
  registered_.reset();
  free_pieces_.clear();
  memory_.assign(kPieces * kPieceSize, std::byte{0});
  absl::StatusOr<std::unique_ptr<RegisteredBuffer>> registered = client.Register(memory_);
  if (!registered.ok()) return;  // its connection is gone already: it begins nothing either
  registered_ = *std::move(registered);
  free_pieces_.resize(kPieces);
  std::iota(free_pieces_.begin(), free_pieces_.end(), 0u);
}

std::optional<std::size_t> AsyncWorker::SomePiece() {
  if (free_pieces_.empty() || Below(3) != 0) return std::nullopt;
  const std::size_t piece = free_pieces_.back();
  free_pieces_.pop_back();
  return piece;
}

void AsyncWorker::GiveBack(std::optional<std::size_t> piece) {
  if (!piece) return;
  std::fill_n(memory_.begin() + static_cast<std::ptrdiff_t>(*piece * kPieceSize), kPieceSize,
              std::byte{0xee});
  free_pieces_.push_back(*piece);
}

void AsyncWorker::Get(AsyncClient& client) {
  const std::string key = AnyKey();
  const std::size_t place = Begin(Kind::kGet, key);
  const std::optional<std::size_t> piece = SomePiece();
  Run(
      client,
      [&](AsyncClient::Done done, const CallOptions& call) {
        if (!piece) return client.Get(key, std::move(done), call);
        return client.Get(key, Piece(*piece, kPieceSize), std::move(done), call);
      },
      [this, place, piece](const AsyncResult& got) {
        // It was there, but too large: nobody knows what.
        const absl::Status status =
            absl::IsOutOfRange(got.status) ? absl::CancelledError(got.status.message()) : got.status;
        EndGet(place, status, std::string(got.value), got.version);
        GiveBack(piece);
      });
}

void AsyncWorker::Exists(AsyncClient& client) {
  const std::string key = AnyKey();
  const std::size_t place = Begin(Kind::kExists, key);
  Run(
      client,
      [&](AsyncClient::Done done, const CallOptions& call) {
        return client.Exists(key, std::move(done), call);
      },
      [this, place](const AsyncResult& result) {
        const bool is_missing = absl::IsNotFound(result.status);
        history_.operations[place].result = is_missing ? 0 : 1;
        End(place, is_missing ? absl::OkStatus() : result.status);
      });
}

void AsyncWorker::EndWrite(std::size_t place, const AsyncResult& result) {
  Operation& operation = history_.operations[place];
  if (result.status.ok()) {
    operation.version = result.version;
    operation.result = result.number;
  }
  End(place, result.status);
}

void AsyncWorker::Put(AsyncClient& client) {
  const Planned put = PlanPut();
  const std::optional<std::size_t> piece = put.value.size() <= kPieceSize ? SomePiece() : std::nullopt;
  Run(
      client,
      [&](AsyncClient::Done done, const CallOptions& call) {
        if (!piece) return client.Put(put.key, put.value, put.options, std::move(done), call);
        const RegisteredBytes value = Piece(*piece, put.value.size());
        std::memcpy(value.bytes().data(), put.value.data(), put.value.size());
        return client.Put(put.key, value, put.options, std::move(done), call);
      },
      [this, place = put.place, piece](const AsyncResult& result) {
        EndWrite(place, result);
        GiveBack(piece);
      });
}

void AsyncWorker::Delete(AsyncClient& client) {
  const Planned erase = PlanDelete();
  Run(
      client,
      [&](AsyncClient::Done done, const CallOptions& call) {
        return client.Delete(erase.key, erase.write_options(), std::move(done), call);
      },
      [this, place = erase.place](const AsyncResult& result) { EndWrite(place, result); });
}

void AsyncWorker::Touch(AsyncClient& client) {
  const Planned touch = PlanTouch();
  Run(
      client,
      [&](AsyncClient::Done done, const CallOptions& call) {
        return client.Touch(touch.key, *touch.options.ttl, touch.write_options(), std::move(done), call);
      },
      [this, place = touch.place](const AsyncResult& result) { EndWrite(place, result); });
}

void AsyncWorker::Increment(AsyncClient& client) {
  const Planned increment = PlanIncrement();
  Run(
      client,
      [&](AsyncClient::Done done, const CallOptions& call) {
        return client.Increment(increment.key, increment.delta, increment.options, std::move(done), call);
      },
      [this, place = increment.place](const AsyncResult& result) { EndWrite(place, result); });
}

void AsyncWorker::Append(AsyncClient& client) {
  const Planned append = PlanAppend();
  Run(
      client,
      [&](AsyncClient::Done done, const CallOptions& call) {
        return client.Append(append.key, append.value, append.options, std::move(done), call);
      },
      [this, place = append.place](const AsyncResult& result) { EndWrite(place, result); });
}

void AsyncWorker::Batch(AsyncClient& client) {
  const PlannedBatch planned = PlanBatch();
  Run(
      client,
      [&](AsyncClient::Done done, const CallOptions& call) {
        return client.Apply(planned.batch, std::move(done), call);
      },
      // Not the batch itself, which the client has copied.
      [this, noted = PlannedBatch{planned.first, planned.count, {}}](const AsyncResult& result) {
        EndBatch(noted, result.status, result.version);
      });
}

}  // namespace remora::linear
