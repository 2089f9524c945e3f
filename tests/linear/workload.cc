#include "tests/linear/workload.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/support/self_describing.h"

namespace remora::linear {
namespace {

using std::chrono::milliseconds;

bool IsRegister(const std::string& key) { return key.starts_with('r'); }

}  // namespace

Worker::Worker(const WorkloadOptions& options, std::uint32_t client, WorkloadShared& shared,
               std::function<Time()> now)
    : options_(options),
      client_(client),
      shared_(shared),
      now_(std::move(now)),
      random_(options.seed * 1000 + client) {}

void Worker::Do(KeyValue& kv) {
  ++done_;
  if (Chance(options_.read_percent)) {
    const std::uint64_t dice = Below(100);
    if (dice < 4) return MultiGet(kv);
    if (dice < 10) return Exists(kv);
    if (dice < 11 && options_.scans && Below(4) == 0) return Scan(kv);
    return Get(kv, AnyKey());
  }
  const std::uint64_t dice = Below(100);
  if (dice < 50) return Put(kv);
  if (dice < 65) return Delete(kv);
  if (dice < 72) return Touch(kv);
  if (dice < 84) return options_.counters > 0 ? Increment(kv) : Put(kv);
  if (dice < 92) return options_.lists > 0 ? Append(kv) : Put(kv);
  Batch(kv);
}

void Worker::ReadAll(KeyValue& kv) {
  for (std::uint32_t i = 0; i < options_.keys; ++i) Get(kv, "r" + std::to_string(i));
  for (std::uint32_t i = 0; i < options_.counters; ++i) Get(kv, "c" + std::to_string(i));
  for (std::uint32_t i = 0; i < options_.lists; ++i) Get(kv, "l" + std::to_string(i));
}

std::string Worker::Key() { return "r" + std::to_string(Below(options_.keys)); }

std::string Worker::AnyKey() {
  const std::uint64_t dice = Below(10);
  if (dice == 0 && options_.counters > 0) return "c" + std::to_string(Below(options_.counters));
  if (dice == 1 && options_.lists > 0) return "l" + std::to_string(Below(options_.lists));
  return Key();
}

std::size_t Worker::ValueSize() {
  if (Below(1000) < options_.large_permille) return kMaxSmallValueSize + 1 + Below(500'000);
  return Below(4) == 0 ? Below(options_.max_value) : Below(std::min<std::size_t>(options_.max_value, 200));
}

std::string Worker::NewValue(const std::string& key, std::string* name) {
  const std::uint64_t number = ++shared_.values;
  *name = "#" + std::to_string(number);
  return MakeValue(key, number, ValueSize());
}

std::string Worker::NameOf(const std::string& key, const std::string& value) {
  if (!IsRegister(key)) return value;
  const std::optional<std::uint64_t> number = NumberOf(key, value);
  if (number) return "#" + std::to_string(*number);
  complaints_.push_back(key + " has bytes of nobody: '" + value.substr(0, 100) + "' (" +
                        std::to_string(value.size()) + " bytes)");
  return "bytes of nobody";
}

std::optional<Durability> Worker::Level() {
  if (!options_.durabilities) return std::nullopt;
  return Below(3) == 0 ? Durability::kSynced : Durability::kLogged;
}

std::optional<milliseconds> Worker::Ttl() {
  if (!options_.ttls || Below(6) != 0) return std::nullopt;
  return milliseconds(1 + (Below(2) == 0 ? Below(20) : Below(2000)));
}

std::size_t Worker::Begin(Kind kind, const std::string& key) {
  Operation& operation = history_.operations.emplace_back();
  operation.client = client_;
  operation.kind = kind;
  operation.key = key;
  operation.begun = now_();
  return history_.operations.size() - 1;
}

void Worker::End(std::size_t place, const absl::Status& status) {
  Operation& operation = history_.operations[place];
  const bool is_read = operation.kind == Kind::kGet || operation.kind == Kind::kExists;
  // That the server does not take this client has the same code.
  const bool has_precondition = !operation.condition.is_none() || operation.kind == Kind::kIncrement;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      operation.outcome = Outcome::kOk;
      operation.ended = now_();
      if (operation.version != 0) versions_[operation.key] = operation.version;
      return;
    case absl::StatusCode::kNotFound:
      operation.outcome = Outcome::kNotFound;
      break;
    case absl::StatusCode::kAlreadyExists:
      operation.outcome = Outcome::kAlreadyExists;
      break;
    case absl::StatusCode::kFailedPrecondition:
      if (!has_precondition) return;
      operation.outcome = Outcome::kFailedPrecondition;
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown:
      operation.version = 0;
      return;  // for ever
    case absl::StatusCode::kResourceExhausted:
      // Nothing was done: as a read that was not answered.
      operation.kind = Kind::kGet;
      return;
    default:
      complaints_.push_back(Text(operation) + ": " + status.ToString());
      return;
  }
  operation.version = 0;
  operation.ended = now_();
  if (!is_read) versions_.erase(operation.key);
}

void Worker::EndGet(std::size_t place, const absl::Status& status, const std::string& value,
                    std::uint64_t version) {
  Operation& operation = history_.operations[place];
  if (status.ok()) {
    operation.value = NameOf(operation.key, value);
    operation.version = version;
  }
  End(place, status);
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
  const std::string key = Key();
  std::string name;
  const std::string value = NewValue(key, &name);
  const std::size_t place = Begin(Kind::kPut, key);
  PutOptions options;
  options.ttl = Ttl();
  options.durability = Level();
  const std::uint64_t dice = Below(10);
  if (dice < 2) options.condition = Condition::Absent();
  if (dice == 2) options.condition = Condition::Present();
  if (dice > 2 && dice < 6 && versions_.contains(key)) options.condition = Condition::Version(versions_[key]);
  std::uint64_t version = 0;
  options.version = &version;
  Operation& put = history_.operations[place];
  put.value = name;
  put.ttl = options.ttl;
  put.condition = options.condition;
  const absl::Status status = kv.Put(key, value, options);
  history_.operations[place].version = version;
  End(place, status);
}

void Worker::Delete(KeyValue& kv) {
  const std::string key = AnyKey();
  const std::size_t place = Begin(Kind::kDelete, key);
  WriteOptions options;
  options.durability = Level();
  if (Below(3) == 0 && versions_.contains(key)) options.condition = Condition::Version(versions_[key]);
  std::uint64_t version = 0;
  options.version = &version;
  history_.operations[place].condition = options.condition;
  const absl::Status status = kv.Delete(key, options);
  history_.operations[place].version = version;
  End(place, status);
}

void Worker::Touch(KeyValue& kv) {
  const std::string key = Key();
  const std::size_t place = Begin(Kind::kTouch, key);
  const milliseconds ttl = Ttl().value_or(kNeverExpires);
  WriteOptions options;
  options.durability = Level();
  std::uint64_t version = 0;
  options.version = &version;
  history_.operations[place].ttl = ttl;
  const absl::Status status = ttl == kNeverExpires ? kv.Persist(key, options) : kv.Touch(key, ttl, options);
  history_.operations[place].version = version;
  End(place, status);
}

void Worker::Increment(KeyValue& kv) {
  const std::string key = "c" + std::to_string(Below(options_.counters));
  const std::size_t place = Begin(Kind::kIncrement, key);
  PutOptions options;
  options.durability = Level();
  std::uint64_t version = 0;
  options.version = &version;
  // One that is lost is like any other: the fewer orders there are to try.
  const std::int64_t delta = 1 + static_cast<std::int64_t>(key.size() % 3);
  history_.operations[place].delta = delta;
  const absl::StatusOr<std::int64_t> sum = kv.Increment(key, delta, options);
  history_.operations[place].version = version;
  if (sum.ok()) history_.operations[place].result = *sum;
  End(place, sum.status());
}

void Worker::Append(KeyValue& kv) {
  const std::string key = "l" + std::to_string(Below(options_.lists));
  const std::size_t place = Begin(Kind::kAppend, key);
  PutOptions options;
  options.durability = Level();
  std::uint64_t version = 0;
  options.version = &version;
  const std::string bytes = "," + std::to_string(++shared_.values);
  history_.operations[place].value = bytes;
  const absl::StatusOr<std::size_t> size = kv.Append(key, bytes, options);
  history_.operations[place].version = version;
  if (size.ok()) history_.operations[place].result = static_cast<std::int64_t>(*size);
  End(place, size.status());
}

void Worker::Batch(KeyValue& kv) {
  WriteBatch batch;
  const std::size_t first = history_.operations.size();
  const std::uint64_t number = ++shared_.batches;
  std::vector<std::string> keys;
  for (std::uint64_t count = 2 + Below(3); count > 0; --count) {
    const std::string key = Key();
    if (std::ranges::find(keys, key) != keys.end()) continue;
    keys.push_back(key);
    Operation& put = history_.operations[Begin(Kind::kPut, key)];
    put.batch = number;
    put.batch_place = keys.size() - 1;
    const std::string value = MakeValue(key, ++shared_.values, Below(200));
    put.value = "#" + std::to_string(NumberOf(key, value).value_or(0));
    put.ttl = Ttl();
    batch.Put(key, value, {}, put.ttl);
  }
  std::uint64_t version = 0;
  const absl::Status status = kv.Apply(batch, &version);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (status.ok()) history_.operations[first + i].version = version + i;
    End(first + i, status);
  }
}

void Worker::Scan(KeyValue& kv) {
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

}  // namespace remora::linear
