#include "tests/linearizability/checker.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "tests/linearizability/batches.h"
#include "tests/linearizability/key_checker.h"
#include "tests/linearizability/scans.h"
#include "tests/linearizability/watches.h"

namespace remora::linear {
namespace {

constexpr std::size_t kMaxLines = 40;

/// Those that ended then or later, and the writes whose turn came among them.
std::vector<Operation> EndedFrom(const std::vector<Operation>& operations, Time from) {
  std::uint64_t lowest = ~std::uint64_t{0};
  for (const Operation& operation : operations) {
    if (operation.ended >= from && IsEffect(operation) && operation.version != 0) {
      lowest = std::min(lowest, operation.version);
    }
  }
  std::vector<Operation> rest;
  for (const Operation& operation : operations) {
    if (operation.ended >= from || (IsEffect(operation) && operation.version > lowest))
      rest.push_back(operation);
  }
  return rest;
}

bool Fails(const std::vector<Operation>& operations, const CheckOptions& options, bool begins_absent) {
  return KeyChecker(operations, options, begins_absent).Run() == KeyChecker::Result::kNot;
}

/// The shortest end of `operations`, which are one key's and fail, that fails whatever the key was before.
std::vector<Operation> Shortest(std::vector<Operation> operations, const CheckOptions& options) {
  std::vector<Time> ends;
  for (const Operation& operation : operations) ends.push_back(operation.ended);
  std::sort(ends.begin(), ends.end());
  if (!Fails(operations, options, /*begins_absent=*/false)) return operations;
  std::size_t fails = 0;
  std::size_t passes = ends.size();
  while (passes - fails > 1) {
    const std::size_t middle = (fails + passes) / 2;
    (Fails(EndedFrom(operations, ends[middle]), options, false) ? fails : passes) = middle;
  }
  operations = EndedFrom(operations, ends[fails]);
  // Operations that found something and need not have done so. Writes stay: without them, others would have
  // found what nobody wrote.
  for (std::size_t i = operations.size(); i-- > 0 && operations.size() <= 1000;) {
    if (IsEffect(operations[i]) && operations[i].outcome == Outcome::kOk) continue;
    std::vector<Operation> fewer = operations;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (Fails(fewer, options, false)) operations = std::move(fewer);
  }
  return operations;
}

std::string Explain(const std::string& key, const std::vector<Operation>& all, std::size_t failed,
                    const CheckOptions& options) {
  const Time end = all[failed].ended;
  std::vector<Operation> operations;
  for (const Operation& operation : all) {
    if (operation.begun <= end) operations.push_back(operation);
  }
  operations = Shortest(std::move(operations), options);
  const bool from_anything = Fails(operations, options, /*begins_absent=*/false);
  KeyChecker again(operations, options, /*begins_absent=*/!from_anything);
  again.Run();
  std::string text = "key '" + key + "': no order of these operations explains what they were told";
  text += from_anything ? ", whatever was there before:\n" : ", from an empty store:\n";
  if (operations.size() > kMaxLines) {
    const std::size_t left_out = operations.size() - kMaxLines;
    text += "    (" + std::to_string(left_out) + " before these)\n";
    operations.erase(operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(left_out));
  }
  for (const Operation& operation : operations) {
    text += (operation.begun == all[failed].begun ? "  > " : "    ") + Text(operation) + "\n";
  }
  return text + "  When the last of them ended, the key could be: " + again.possible();
}

void CheckVersions(const std::vector<Operation>& operations, Verdict* verdict) {
  std::vector<const Operation*> writes;
  for (const Operation& operation : operations) {
    if (!IsEffect(operation)) continue;
    if (operation.outcome == Outcome::kOk && operation.version == 0) {
      verdict->faults.push_back("a write without a version: " + Text(operation));
    }
    if (operation.version != 0) writes.push_back(&operation);
  }
  std::ranges::sort(writes, {}, &Operation::version);
  for (std::size_t i = 1; i < writes.size(); ++i) {
    if (writes[i - 1]->version != writes[i]->version) continue;
    verdict->faults.push_back("two writes of one version:\n    " + Text(*writes[i - 1]) + "\n    " +
                              Text(*writes[i]));
  }
  std::vector<const Operation*> by_end = writes;
  std::ranges::sort(by_end, {}, &Operation::ended);
  std::ranges::sort(writes, {}, &Operation::begun);
  const Operation* latest = nullptr;
  std::size_t ended = 0;
  for (const Operation* write : writes) {
    for (; ended < by_end.size() && by_end[ended]->ended < write->begun; ++ended) {
      if (latest == nullptr || by_end[ended]->version > latest->version) latest = by_end[ended];
    }
    if (latest == nullptr || latest->version < write->version) continue;
    verdict->faults.push_back("a write began when one of a later version had ended:\n    " + Text(*latest) +
                              "\n    " + Text(*write));
    return;
  }
}

/// Checks that writes that a client began first have the lower versions.
void CheckOrder(std::vector<Operation> operations, Verdict* verdict) {
  std::erase_if(operations, [](const Operation& one) { return !IsEffect(one) || one.version == 0; });
  std::ranges::sort(operations, {},
                    [](const Operation& one) { return std::pair(one.begun, one.batch_place); });
  std::unordered_map<std::uint32_t, const Operation*> latest;  // by client
  for (const Operation& write : operations) {
    const Operation*& before = latest[write.client];
    if (before != nullptr && before->version > write.version) {
      verdict->faults.push_back("a client's writes were done in another order than it began them:\n    " +
                                Text(*before) + "\n    " + Text(write));
      return;
    }
    before = &write;
  }
}

/// Writes that ended with nothing known, and whose value was found: so they were done, and of this version.
void NameFound(std::vector<Operation>* operations) {
  std::unordered_map<std::string, Operation*> unknown;
  std::unordered_map<std::uint64_t, bool> versions;
  for (Operation& operation : *operations) {
    if (!IsEffect(operation)) continue;
    if (operation.version != 0) versions[operation.version] = true;
    if (operation.outcome != Outcome::kUnknown || operation.version != 0) continue;
    // Then a value may have been found with another version than its put gave it.
    if (operation.kind != Kind::kPut && operation.kind != Kind::kDelete) return;
    if (operation.kind == Kind::kPut && !unknown.emplace(operation.value, &operation).second) return;
  }
  if (unknown.empty()) return;
  std::unordered_map<std::string, std::size_t> writers;
  for (const Operation& operation : *operations) {
    if (operation.kind == Kind::kPut && IsEffect(operation)) ++writers[operation.value];
  }
  for (const Operation& get : *operations) {
    if (get.kind != Kind::kGet || get.outcome != Outcome::kOk || versions.contains(get.version)) continue;
    const auto found = unknown.find(get.value);
    if (found == unknown.end() || writers[get.value] != 1) continue;
    Operation& put = *found->second;
    if (put.version == 0 || get.version < put.version) put.version = get.version;
  }
}

}  // namespace

Verdict Check(const History& history, const CheckOptions& options) {
  Verdict verdict;
  std::map<std::string, std::vector<Operation>> keys;
  for (const Operation& operation : history.operations) {
    const bool tells = operation.outcome != Outcome::kUnknown || IsEffect(operation);
    if (tells) keys[operation.key].push_back(operation);
  }
  for (auto& [key, operations] : keys) NameFound(&operations);
  EndShown(history.watches, &keys);
  EndBatches(&keys);
  std::vector<Operation> all;
  for (const auto& [key, operations] : keys) all.insert(all.end(), operations.begin(), operations.end());
  CheckVersions(all, &verdict);
  if (options.writes_in_order) CheckOrder(all, &verdict);
  CheckScans(history.scans, all, &verdict.faults);
  CheckWatches(history.watches, all, &verdict.faults);
  for (const ScanResult& scan : history.scans) AddGets(scan, &keys);
  for (auto& [key, operations] : keys) {
    std::ranges::stable_sort(operations, {}, &Operation::begun);
    verdict.checked += operations.size();
    KeyChecker checker(operations, options);
    switch (checker.Run()) {
      case KeyChecker::Result::kLinearizable:
        break;
      case KeyChecker::Result::kNot:
        verdict.faults.push_back(Explain(key, operations, checker.failed(), options));
        break;
      case KeyChecker::Result::kUndecided:
        verdict.undecided.push_back(key + ": too many writes of unknown outcome at " +
                                    Text(operations[checker.failed()]));
        break;
    }
  }
  return verdict;
}

std::string Text(const Verdict& verdict) {
  std::string text;
  for (const std::string& fault : verdict.faults) text += fault + "\n";
  for (const std::string& key : verdict.undecided) text += "undecided: " + key + "\n";
  return text;
}

}  // namespace remora::linear
