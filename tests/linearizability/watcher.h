// A client that watches a store, besides using it, and notes what it was shown.
#pragma once

#include <memory>
#include <string>

#include "tests/conformance/deployment.h"
#include "tests/linearizability/workload.h"

namespace remora::linear {

class Watcher : public Worker {
 public:
  using Worker::Worker;

  /// Goes on with its watch, from where it was, whichever client it was before; or does the work of a Worker.
  /// The changes that it was shown are in the history also where this throws.
  void Do(KeyValue& kv);
  /// The watch ends, before the client that it is of. The next one goes on behind it.
  void Leave() { watch_.reset(); }

 private:
  void Begin(KeyValue& kv);
  void Note();

  std::unique_ptr<KeyWatch> watch_;
  std::string token_;  // behind what it was shown; empty: it is to begin anew
};

}  // namespace remora::linear
