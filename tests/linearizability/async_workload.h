// A client that has many operations in flight at once, at random, and notes what it asked and was told.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "client/async_client.h"
#include "tests/linearizability/recorder.h"

namespace remora::linear {

class AsyncWorker : public Recorder {
 public:
  using Recorder::Recorder;

  /// Begins something, or cancels it, or lets the client go on. An operation that it began is in the history
  /// also where this throws, or the client is destroyed; this outlives it.
  void Do(AsyncClient& client);

  /// Some of the values come from, and some go to, memory that is registered with this client, from now on.
  /// REQUIRES: there is none before it any more.
  void UseMemoryOf(AsyncClient& client);

 private:
  static constexpr std::size_t kPieces = 6;
  static constexpr std::size_t kPieceSize = 4096;

  /// Starts an operation that is noted when it begins, with the work of its callback.
  using Start = std::function<AsyncClient::Begun(AsyncClient::Done, const CallOptions&)>;
  using Ended = std::function<void(const AsyncResult&)>;

  void BeginSomething(AsyncClient& client);
  void Run(AsyncClient& client, const Start& start, Ended ended);
  void Get(AsyncClient& client);
  void Exists(AsyncClient& client);
  void Put(AsyncClient& client);
  void Delete(AsyncClient& client);
  void Touch(AsyncClient& client);
  void Increment(AsyncClient& client);
  void Append(AsyncClient& client);
  void Batch(AsyncClient& client);
  /// Ends a write that was told its version.
  void EndWrite(std::size_t place, const AsyncResult& result);
  CallOptions SomeCallOptions();
  /// A piece of the memory, of which nobody knows what is in it; now and then, if there is one.
  std::optional<std::size_t> SomePiece();
  RegisteredBytes Piece(std::size_t piece, std::size_t size) const {
    return registered_->Part(piece * kPieceSize, size);
  }
  /// Gives the piece back: any access of the client to it from now on is a fault.
  void GiveBack(std::optional<std::size_t> piece);

  std::vector<AsyncClient::OperationId> begun_;  // of late; most have ended
  std::size_t most_ = 4;                         // in flight, for now
  std::vector<std::byte> memory_;
  std::unique_ptr<RegisteredBuffer> registered_;
  std::vector<std::size_t> free_pieces_;
};

}  // namespace remora::linear
