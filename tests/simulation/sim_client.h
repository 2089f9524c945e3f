// The clients of a simulated world: the work of each, one connection after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "client/client.h"
#include "store/base/clock.h"
#include "tests/linearizability/recorder.h"

namespace remora {

/// Its calls may throw wherever they wait: then its process has ended, and Disconnect is next.
///
/// Thread safety: none.
class SimClient {
 public:
  virtual ~SimClient() = default;

  virtual absl::Status Connect(Client::Dialer dialer, const ClientOptions& options, const Clock& clock) = 0;
  /// Nothing is done any more of what is in flight. Does not wait.
  virtual void Disconnect() = 0;
  virtual bool is_connected() const = 0;

  // REQUIRES: is_connected().
  /// Does something, or a part of it.
  virtual void Do() = 0;
  /// Reads every key, in the end. REQUIRES: it is not of NewAsyncClient.
  virtual void ReadAll() = 0;
  /// Goes on with what is in flight, and begins nothing.
  virtual void Settle() = 0;

  /// Returns true if something is in flight.
  virtual bool has_more() const = 0;
  virtual linear::Recorder& notes() = 0;
};

/// One operation after the other.
std::unique_ptr<SimClient> NewBlockingClient(const linear::WorkloadOptions& options, std::uint32_t number,
                                             linear::WorkloadShared& shared,
                                             std::function<linear::Time()> now);
/// One operation after the other, and it watches.
std::unique_ptr<SimClient> NewWatchingClient(const linear::WorkloadOptions& options, std::uint32_t number,
                                             linear::WorkloadShared& shared,
                                             std::function<linear::Time()> now);
/// Many at once.
std::unique_ptr<SimClient> NewAsyncClient(const linear::WorkloadOptions& options, std::uint32_t number,
                                          linear::WorkloadShared& shared, std::function<linear::Time()> now);

}  // namespace remora
