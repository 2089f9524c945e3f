#include "tests/linearizability/recorder.h"

#include <algorithm>
#include <utility>

#include "tests/support/self_describing.h"

namespace remora::linear {
namespace {

using std::chrono::milliseconds;

bool IsRegister(const std::string& key) { return key.starts_with('r'); }

}  // namespace

Recorder::Recorder(const WorkloadOptions& options, std::uint32_t client, WorkloadShared& shared,
                   std::function<Time()> now)
    : options_(options),
      shared_(shared),
      now_(std::move(now)),
      client_(client),
      random_(options.seed * 1000 + client) {}

Recorder::Choice Recorder::Choose() {
  if (Chance(options_.read_percent)) {
    const std::uint64_t dice = Below(100);
    if (dice < 4) return Choice::kMultiGet;
    if (dice < 10) return Choice::kExists;
    if (options_.one_sided ? dice < 14 : dice < 11 && options_.scans && Below(4) == 0) return Choice::kScan;
    return Choice::kGet;
  }
  const std::uint64_t dice = Below(100);
  if (dice < 46) return Choice::kPut;
  if (dice < 50) return Choice::kMultiPut;
  if (dice < 65) return Choice::kDelete;
  if (dice < 72) return Choice::kTouch;
  if (dice < 84) return options_.counters > 0 ? Choice::kIncrement : Choice::kPut;
  if (dice < 92) return options_.lists > 0 ? Choice::kAppend : Choice::kPut;
  return Choice::kBatch;
}

std::string Recorder::Key() { return KeyOf(Below(options_.keys)); }

std::string Recorder::KeyOf(std::uint64_t number) const {
  std::string key = "r" + std::to_string(number);
  // Some are so long that clients cannot READ their leaf.
  const std::size_t size = options_.key_size > 0 && number % 64 == 63 ? kMaxKeySize : options_.key_size;
  if (key.size() < size) key.resize(size, '.');
  return key;
}

std::string Recorder::AnyKey() {
  const std::uint64_t dice = Below(10);
  if (dice == 0 && options_.counters > 0) return "c" + std::to_string(Below(options_.counters));
  if (dice == 1 && options_.lists > 0) return "l" + std::to_string(Below(options_.lists));
  return Key();
}

std::size_t Recorder::ValueSize() {
  if (Below(1000) < options_.large_permille) return kMaxSmallValueSize + 1 + Below(500'000);
  return Below(4) == 0 ? Below(options_.max_value) : Below(std::min<std::size_t>(options_.max_value, 200));
}

std::string Recorder::NewValue(const std::string& key, std::string* name) {
  const std::uint64_t number = ++shared_.values;
  *name = "#" + std::to_string(number);
  return MakeValue(key, number, ValueSize());
}

std::string Recorder::NameOf(const std::string& key, const std::string& value) {
  if (!IsRegister(key)) return value;
  const std::optional<std::uint64_t> number = NumberOf(key, value);
  if (number) return "#" + std::to_string(*number);
  complaints_.push_back(key + " has bytes of nobody: '" + value.substr(0, 100) + "' (" +
                        std::to_string(value.size()) + " bytes)");
  return "bytes of nobody";
}

std::optional<Durability> Recorder::Level() {
  if (!options_.durabilities) return std::nullopt;
  return Below(3) == 0 ? Durability::kSynced : Durability::kLogged;
}

std::optional<milliseconds> Recorder::Ttl() {
  if (!options_.ttls || Below(6) != 0) return std::nullopt;
  return milliseconds(1 + (Below(2) == 0 ? Below(20) : Below(2000)));
}

std::size_t Recorder::Begin(Kind kind, const std::string& key) {
  Operation& operation = history_.operations.emplace_back();
  operation.client = client_;
  operation.kind = kind;
  operation.key = key;
  operation.begun = now_();
  return history_.operations.size() - 1;
}

void Recorder::End(std::size_t place, const absl::Status& status) {
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
    case absl::StatusCode::kCancelled:
      operation.version = 0;
      return;  // for ever
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
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

void Recorder::EndGet(std::size_t place, const absl::Status& status, const std::string& value,
                      std::uint64_t version) {
  Operation& operation = history_.operations[place];
  if (status.ok()) {
    operation.value = NameOf(operation.key, value);
    operation.version = version;
  }
  End(place, status);
}

Recorder::Planned Recorder::PlanPut() {
  Planned put{.key = Key()};
  std::string name;
  put.value = NewValue(put.key, &name);
  put.place = Begin(Kind::kPut, put.key);
  put.options.ttl = Ttl();
  put.options.durability = Level();
  const std::uint64_t dice = Below(10);
  if (dice < 2) put.options.condition = Condition::Absent();
  if (dice == 2) put.options.condition = Condition::Present();
  if (dice > 2 && dice < 6 && versions_.contains(put.key)) {
    put.options.condition = Condition::Version(versions_[put.key]);
  }
  Operation& operation = history_.operations[put.place];
  operation.value = name;
  operation.ttl = put.options.ttl;
  operation.condition = put.options.condition;
  return put;
}

Recorder::Planned Recorder::PlanDelete() {
  Planned erase{.key = AnyKey()};
  erase.place = Begin(Kind::kDelete, erase.key);
  erase.options.durability = Level();
  if (Below(3) == 0 && versions_.contains(erase.key)) {
    erase.options.condition = Condition::Version(versions_[erase.key]);
  }
  history_.operations[erase.place].condition = erase.options.condition;
  return erase;
}

Recorder::Planned Recorder::PlanTouch() {
  Planned touch{.key = Key()};
  touch.place = Begin(Kind::kTouch, touch.key);
  touch.options.ttl = Ttl().value_or(kNeverExpires);
  touch.options.durability = Level();
  history_.operations[touch.place].ttl = touch.options.ttl;
  return touch;
}

Recorder::Planned Recorder::PlanIncrement() {
  Planned increment{.key = "c" + std::to_string(Below(options_.counters))};
  increment.place = Begin(Kind::kIncrement, increment.key);
  increment.options.durability = Level();
  // One that is lost is like any other: the fewer orders there are to try.
  increment.delta = 1 + static_cast<std::int64_t>(increment.key.size() % 3);
  history_.operations[increment.place].delta = increment.delta;
  return increment;
}

Recorder::Planned Recorder::PlanAppend() {
  Planned append{.key = "l" + std::to_string(Below(options_.lists))};
  append.place = Begin(Kind::kAppend, append.key);
  append.options.durability = Level();
  append.value = "," + std::to_string(++shared_.values);
  history_.operations[append.place].value = append.value;
  return append;
}

Recorder::PlannedBatch Recorder::PlanBatch() {
  PlannedBatch planned{.first = history_.operations.size()};
  const std::uint64_t number = ++shared_.batches;
  std::vector<std::string> keys;
  for (std::uint64_t count = 2 + Below(3); count > 0; --count) {
    const std::string key = Key();
    if (std::ranges::find(keys, key) != keys.end()) continue;
    keys.push_back(key);
    Operation& put = history_.operations[Begin(Kind::kPut, key)];
    put.batch = number;
    put.batch_place = planned.count++;
    const std::string value = MakeValue(key, ++shared_.values, Below(200));
    put.value = "#" + std::to_string(NumberOf(key, value).value_or(0));
    put.ttl = Ttl();
    planned.batch.Put(key, value, {.ttl = put.ttl});
  }
  return planned;
}

void Recorder::EndBatch(const PlannedBatch& batch, const absl::Status& status, std::uint64_t version) {
  for (std::size_t i = 0; i < batch.count; ++i) {
    if (status.ok()) history_.operations[batch.first + i].version = version + i;
    End(batch.first + i, status);
  }
}

}  // namespace remora::linear
