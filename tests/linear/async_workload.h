// A client that has many operations under way at once, at random, and notes what it asked and was told.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "client/async.h"
#include "tests/linear/recorder.h"

namespace remora::linear {

class AsyncWorker : public Recorder {
 public:
  using Recorder::Recorder;

  /// Begins something, or cancels it, or lets the client go on. What it began is in the history also where
  /// this throws, or the client is destroyed; this outlives it.
  void Do(AsyncClient& client);

 private:
  /// As it is noted when it begins, and what its callback does.
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
  /// Of a write that was told its version.
  void EndWrite(std::size_t place, const AsyncResult& result);
  CallOptions SomeCallOptions();

  std::vector<AsyncClient::OperationId> begun_;  // of late; most have ended
  std::size_t most_ = 4;                         // under way, for now
};

}  // namespace remora::linear
