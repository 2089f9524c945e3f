// A client that uses a store in every way, at random, and notes what it asked and was told.
#pragma once

#include <string>

#include "tests/conformance/deployment.h"
#include "tests/linearizability/recorder.h"

namespace remora::linear {

class Worker : public Recorder {
 public:
  using Recorder::Recorder;

  /// Does something. An operation that it began is in the history also where this throws.
  void Do(KeyValue& kv);
  /// Reads every key, in the end.
  void ReadAll(KeyValue& kv);

 private:
  void Get(KeyValue& kv, const std::string& key);
  void Exists(KeyValue& kv);
  void MultiGet(KeyValue& kv);
  void MultiPut(KeyValue& kv);
  void Put(KeyValue& kv);
  void Delete(KeyValue& kv);
  void Touch(KeyValue& kv);
  void Increment(KeyValue& kv);
  void Append(KeyValue& kv);
  void Batch(KeyValue& kv);
  void Scan(KeyValue& kv);
  void ScanOneSided(KeyValue& kv);
  void Complain(const std::string& what, const absl::Status& status);

  std::string value_;
};

}  // namespace remora::linear
