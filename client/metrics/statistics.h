// Statistics of a client: its counters, and its recorder if its options ask for one.
#pragma once

#include <memory>

#include "client/client_metrics.h"
#include "client/counters.h"
#include "client/metrics/recorder.h"

namespace remora {

/// The counters of one client, and its recorder.
///
/// Thread safety: Metrics may be called from any thread if there is a recorder. One thread at a time calls
/// the other functions.
class ClientStatistics {
 public:
  /// `records`: the client has a recorder (ClientOptions::metrics).
  explicit ClientStatistics(bool records)
      : recorder_(records ? std::make_unique<ClientRecorder>() : nullptr) {}

  ClientCounters& counters() { return counters_; }
  const ClientCounters& counters() const { return counters_; }
  /// Null: the client records nothing.
  ClientRecorder* recorder() const { return recorder_.get(); }
  ClientMetrics Metrics() const {
    if (recorder_ != nullptr) return recorder_->Snapshot();
    ClientMetrics metrics;
    metrics.Set(counters_);
    return metrics;
  }

 private:
  ClientCounters counters_;
  const std::unique_ptr<ClientRecorder> recorder_;
};

}  // namespace remora
