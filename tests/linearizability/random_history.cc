#include "tests/linearizability/random_history.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace remora::linear {
namespace {

using std::chrono::milliseconds;

constexpr Time kMillisecond = 1'000'000;

class Maker {
 public:
  explicit Maker(const RandomHistoryOptions& options) : options_(options), random_(options.seed) {}

  History Make() {
    std::vector<std::optional<InFlight>> clients(options_.clients);
    while (history_.operations.size() < options_.operations) {
      now_ += static_cast<Time>(Below(kMillisecond) + 1);
      const auto number = static_cast<std::uint32_t>(Below(options_.clients));
      std::optional<InFlight>& client = clients[number];
      if (!client) {
        client = Begin(number);
      } else if (!client->is_done) {
        Do(*client);
      } else {
        End(*client);
        client.reset();
      }
      if (!lost_.empty() && Below(10) == 0) {  // it comes late
        Do(lost_.back());
        lost_.pop_back();
      }
    }
    for (std::optional<InFlight>& client : clients) {
      if (!client) continue;
      ++now_;
      if (!client->is_done) Do(*client);
      End(*client);
    }
    return std::move(history_);
  }

 private:
  struct InFlight {
    std::vector<Operation> operations;  // several: a batch, or a scan's
    bool is_done = false;
    bool is_scan = false;
    Time done = 0;
    ScanResult scan{};
  };
  struct Record {
    std::string value;
    std::uint64_t version = 0;
    Time expires = kNever;
  };

  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  std::string Key(std::uint64_t number) { return "key" + std::to_string(number); }
  static std::string Counter() { return "counter"; }
  static std::string List() { return "list"; }

  InFlight Begin(std::uint32_t client) {
    InFlight made;
    Operation operation;
    operation.client = client;
    operation.begun = now_;
    const std::uint64_t dice = Below(100);
    if (dice < 4) {
      made.is_scan = true;
      made.scan.client = client;
      made.scan.begun = now_;
      return made;
    }
    if (dice < 10) {
      operation.batch = ++batches_;
      for (std::uint64_t i = 0; i < options_.keys; ++i) {
        operation.kind = Kind::kPut;
        operation.key = Key(i);
        operation.value = "v" + std::to_string(++values_);
        operation.batch_place = i;
        made.operations.push_back(operation);
      }
      return made;
    }
    operation.key = dice < 25 ? Counter() : dice < 35 ? List() : Key(Below(options_.keys));
    Choose(&operation);
    made.operations.push_back(operation);
    return made;
  }

  void Choose(Operation* operation) {
    const std::uint64_t dice = Below(100);
    operation->kind = dice < 40   ? Kind::kGet
                      : dice < 45 ? Kind::kExists
                      : dice < 55 ? Kind::kDelete
                                  : Kind::kPut;
    if (dice >= 55 && operation->key == Counter()) {
      operation->kind = Kind::kIncrement;
      operation->delta = static_cast<std::int64_t>(Below(3)) + 1;
    } else if (dice >= 55 && operation->key == List()) {
      operation->kind = Kind::kAppend;
      operation->value = "," + std::to_string(++values_);
    } else if (dice >= 95) {
      operation->kind = Kind::kTouch;
      operation->ttl = options_.ttls ? milliseconds(Below(30) + 1) : kNeverExpires;
    } else if (operation->kind == Kind::kPut) {
      operation->value = "v" + std::to_string(++values_);
      if (options_.ttls && Below(3) == 0) operation->ttl = milliseconds(Below(30) + 1);
      const std::uint64_t condition = Below(4);
      if (condition == 0) operation->condition = Condition::Absent();
      if (condition == 1) {
        operation->condition = Condition::Version(
            Find(operation->key) != nullptr ? Find(operation->key)->version : Below(50) + 1);
      }
    }
  }

  Record* Find(const std::string& key) {
    const auto found = records_.find(key);
    if (found == records_.end()) return nullptr;
    if (found->second.expires <= now_) {
      records_.erase(found);
      return nullptr;
    }
    return &found->second;
  }

  static Outcome Decide(const Condition& condition, const Record* record) {
    if (condition.is_none()) return Outcome::kOk;
    if (condition == Condition::Absent()) return record == nullptr ? Outcome::kOk : Outcome::kAlreadyExists;
    if (record == nullptr) return Outcome::kNotFound;
    if (condition == Condition::Present() || condition.version() == record->version) return Outcome::kOk;
    return Outcome::kFailedPrecondition;
  }

  void Do(InFlight& one) {
    one.is_done = true;
    one.done = now_;
    if (one.is_scan) {
      for (const std::string& key : Keys()) {
        if (const Record* record = Find(key))
          one.scan.entries.push_back({key, record->value, record->version});
      }
      return;
    }
    for (Operation& operation : one.operations) DoOne(operation);
  }

  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, record] : records_) keys.push_back(key);
    return keys;
  }

  void DoOne(Operation& operation) {
    Record* record = Find(operation.key);
    operation.outcome = Outcome::kOk;
    if (operation.kind == Kind::kExists) {
      operation.result = record != nullptr ? 1 : 0;
      return;
    }
    const bool needs_one =
        operation.kind == Kind::kGet || operation.kind == Kind::kDelete || operation.kind == Kind::kTouch;
    if (needs_one && record == nullptr) {
      operation.outcome = Outcome::kNotFound;
      return;
    }
    if (operation.kind == Kind::kGet) {
      operation.value = record->value;
      operation.version = record->version;
      return;
    }
    operation.outcome = Decide(operation.condition, record);
    if (operation.outcome != Outcome::kOk) return;
    operation.version = version_ += operation.batch_place > 0 ? 1 : 1 + Below(2);
    if (operation.kind == Kind::kDelete) {
      records_.erase(operation.key);
      return;
    }
    Record& to = records_[operation.key];
    to.version = operation.version;
    if (operation.kind == Kind::kPut) to.value = operation.value;
    if (operation.kind == Kind::kAppend) {
      to.value += operation.value;
      operation.result = static_cast<std::int64_t>(to.value.size());
    }
    if (operation.kind == Kind::kIncrement) {
      operation.result = (to.value.empty() ? 0 : std::stoll(to.value)) + operation.delta;
      to.value = std::to_string(operation.result);
    }
    const bool keeps = operation.kind == Kind::kIncrement || operation.kind == Kind::kAppend;
    if (operation.ttl && *operation.ttl != kNeverExpires) {
      to.expires = now_ + operation.ttl->count() * kMillisecond;
    } else if (!keeps) {
      to.expires = kNever;
    }
  }

  void End(InFlight& one) {
    if (one.is_scan) {
      one.scan.opened = one.scan.ended = now_;
      history_.scans.push_back(one.scan);
      return;
    }
    const bool is_lost = Below(100) < options_.unknown_percent;
    for (Operation& operation : one.operations) {
      operation.ended = now_;
      if (!is_lost) continue;
      if (!IsEffect(operation)) return;  // nobody learns of it
      operation.outcome = Outcome::kUnknown;
      operation.ended = kNever;
      operation.version = 0;
      operation.result = 0;
    }
    history_.operations.insert(history_.operations.end(), one.operations.begin(), one.operations.end());
    // Another one, that is lost before it is done, and may yet be.
    if (!options_.late || !is_lost || one.operations.size() > 1) return;
    Operation& late = one.operations.front();
    if (late.kind != Kind::kPut) return;
    late.value = "v" + std::to_string(++values_);
    late.begun = now_;
    late.batch = 0;
    history_.operations.push_back(late);
    if (Below(2) == 0) lost_.push_back({{late}});
  }

  const RandomHistoryOptions options_;
  std::mt19937_64 random_;
  History history_;
  std::map<std::string, Record> records_;
  std::vector<InFlight> lost_;
  Time now_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t values_ = 0;
  std::uint64_t batches_ = 0;
};

}  // namespace

History MakeHistory(const RandomHistoryOptions& options) { return Maker(options).Make(); }

}  // namespace remora::linear
