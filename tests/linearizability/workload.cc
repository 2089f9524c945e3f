#include "tests/linearizability/workload.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace remora::linear {

void Worker::Do(KeyValue& kv) {
  ++done_;
  switch (Choose()) {
    case Choice::kGet:
      return Get(kv, AnyKey());
    case Choice::kMultiGet:
      return MultiGet(kv);
    case Choice::kExists:
      return Exists(kv);
    case Choice::kScan:
      return Scan(kv);
    case Choice::kPut:
      return Put(kv);
    case Choice::kMultiPut:
      return MultiPut(kv);
    case Choice::kDelete:
      return Delete(kv);
    case Choice::kTouch:
      return Touch(kv);
    case Choice::kIncrement:
      return Increment(kv);
    case Choice::kAppend:
      return Append(kv);
    case Choice::kBatch:
      return Batch(kv);
  }
}

void Worker::ReadAll(KeyValue& kv) {
  for (std::uint32_t i = 0; i < options_.keys; ++i) Get(kv, KeyOf(i));
  for (std::uint32_t i = 0; i < options_.counters; ++i) Get(kv, "c" + std::to_string(i));
  for (std::uint32_t i = 0; i < options_.lists; ++i) Get(kv, "l" + std::to_string(i));
}

void Worker::Get(KeyValue& kv, const std::string& key) {
  const std::size_t place = Begin(Kind::kGet, key);
  std::uint64_t version = 0;
  const absl::Status status = kv.Get(key, &value_, &version);
  EndGet(place, status, value_, version);
}

void Worker::Exists(KeyValue& kv) {
  const std::size_t place = Begin(Kind::kExists, AnyKey());
  const absl::StatusOr<bool> exists = kv.Exists(history_.operations[place].key);
  if (exists.ok()) history_.operations[place].result = *exists ? 1 : 0;
  End(place, exists.status());
}

void Worker::MultiGet(KeyValue& kv) {
  std::vector<std::string> keys(2 + Below(8));
  for (std::string& key : keys) key = AnyKey();
  const std::size_t first = history_.operations.size();
  for (const std::string& key : keys) Begin(Kind::kGet, key);
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<GetResult> results(keys.size());
  kv.MultiGet(views, results).IgnoreError();  // each says so
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EndGet(first + i, results[i].status, results[i].value, results[i].version);
  }
}

void Worker::Put(KeyValue& kv) {
  Planned put = PlanPut();
  std::uint64_t version = 0;
  put.options.version = &version;
  const absl::Status status = kv.Put(put.key, put.value, put.options);
  history_.operations[put.place].version = version;
  End(put.place, status);
}

void Worker::MultiPut(KeyValue& kv) {
  if (kv.client() == nullptr) return Put(kv);
  std::vector<Planned> planned(2 + Below(24));
  for (Planned& put : planned) put = PlanPut();
  std::vector<PutRequest> requests;
  for (const Planned& put : planned) requests.push_back({put.key, put.value, put.options});
  std::vector<PutResult> results(planned.size());
  kv.client()->MultiPut(requests, results).IgnoreError();  // each says so
  for (std::size_t i = 0; i < planned.size(); ++i) {
    history_.operations[planned[i].place].version = results[i].version;
    End(planned[i].place, results[i].status);
  }
}

void Worker::Delete(KeyValue& kv) {
  const Planned erase = PlanDelete();
  WriteOptions options = erase.write_options();
  std::uint64_t version = 0;
  options.version = &version;
  const absl::Status status = kv.Delete(erase.key, options);
  history_.operations[erase.place].version = version;
  End(erase.place, status);
}

void Worker::Touch(KeyValue& kv) {
  const Planned touch = PlanTouch();
  WriteOptions options = touch.write_options();
  std::uint64_t version = 0;
  options.version = &version;
  const bool persists = *touch.options.ttl == kNeverExpires;
  const absl::Status status =
      persists ? kv.Persist(touch.key, options) : kv.Touch(touch.key, *touch.options.ttl, options);
  history_.operations[touch.place].version = version;
  End(touch.place, status);
}

void Worker::Increment(KeyValue& kv) {
  Planned increment = PlanIncrement();
  std::uint64_t version = 0;
  increment.options.version = &version;
  const absl::StatusOr<std::int64_t> sum = kv.Increment(increment.key, increment.delta, increment.options);
  history_.operations[increment.place].version = version;
  if (sum.ok()) history_.operations[increment.place].result = *sum;
  End(increment.place, sum.status());
}

void Worker::Append(KeyValue& kv) {
  Planned append = PlanAppend();
  std::uint64_t version = 0;
  append.options.version = &version;
  const absl::StatusOr<std::size_t> size = kv.Append(append.key, append.value, append.options);
  history_.operations[append.place].version = version;
  if (size.ok()) history_.operations[append.place].result = static_cast<std::int64_t>(*size);
  End(append.place, size.status());
}

void Worker::Batch(KeyValue& kv) {
  const PlannedBatch planned = PlanBatch();
  std::uint64_t version = 0;
  const absl::Status status = kv.Apply(planned.batch, &version);
  EndBatch(planned, status, version);
}

void Worker::Scan(KeyValue& kv) {
  if (options_.one_sided) return ScanOneSided(kv);
  ScanResult result;
  result.client = client_;
  result.begun = now_();
  const absl::StatusOr<std::unique_ptr<KeyScan>> scan = kv.Scan({.one_moment = true});
  result.opened = now_();
  if (!scan.ok()) return;
  while ((*scan)->Next()) {
    const std::string key((*scan)->key());
    result.entries.push_back({key, NameOf(key, std::string((*scan)->value())), (*scan)->version()});
  }
  if (!(*scan)->status().ok()) return;  // it shows less than there is
  result.ended = now_();
  history_.scans.push_back(std::move(result));
}

void Worker::ScanOneSided(KeyValue& kv) {
  ScanResult result;
  result.client = client_;
  result.is_one_sided = true;
  result.is_reverse = done_ % 2 == 0;
  result.begun = now_();
  const absl::StatusOr<std::unique_ptr<KeyScan>> scan =
      kv.Scan({.reverse = result.is_reverse, .one_sided = true});
  result.opened = now_();
  // The server may be down, as for every call.
  const auto is_expected = [](const absl::Status& status) {
    return status.ok() || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  };
  if (!is_expected(scan.status())) Complain("a one-sided scan does not begin", scan.status());
  if (!scan.ok()) return;
  while ((*scan)->Next()) {
    const std::string key((*scan)->key());
    result.entries.push_back({key, NameOf(key, std::string((*scan)->value())), (*scan)->version(), now_()});
  }
  const absl::Status& status = (*scan)->status();
  result.is_whole = status.ok();
  if (!is_expected(status)) Complain("a one-sided scan ends", status);
  result.ended = now_();
  history_.scans.push_back(std::move(result));
}

void Worker::Complain(const std::string& what, const absl::Status& status) {
  complaints_.push_back(what + ": " + status.ToString());
}

}  // namespace remora::linear
