#include "tests/linearizability/key_checker.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

namespace remora::linear {
namespace {

constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

bool IsIn(const std::vector<std::uint32_t>& sorted, std::uint32_t operation) {
  return std::binary_search(sorted.begin(), sorted.end(), operation);
}

bool IsWrite(const Operation& operation) {
  return operation.kind != Kind::kGet && operation.kind != Kind::kExists;
}

void Insert(std::vector<std::uint32_t>* sorted, std::uint32_t operation) {
  sorted->insert(std::lower_bound(sorted->begin(), sorted->end(), operation), operation);
}

}  // namespace

bool KeyChecker::Configuration::IsAsGoodAs(const Configuration& other) const {
  return state == other.state && acknowledged == other.acknowledged &&
         std::includes(done.begin(), done.end(), other.done.begin(), other.done.end()) &&
         std::includes(other.used.begin(), other.used.end(), used.begin(), used.end());
}

KeyChecker::KeyChecker(std::vector<Operation> operations, const CheckOptions& options, bool begins_absent)
    : options_(options), operations_(std::move(operations)), register_(operations_, options) {
  for (std::uint32_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = operations_[i];
    events_.push_back({operation.begun, false, i});
    if (operation.ended != kNever) events_.push_back({operation.ended, true, i});
    if (IsEffect(operation) && operation.version != 0) writes_.push_back(i);
  }
  std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return std::pair(a.time, a.is_end) < std::pair(b.time, b.is_end);
  });
  std::sort(writes_.begin(), writes_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return operations_[a].version < operations_[b].version;
  });
  place_.assign(operations_.size(), kNoPlace);
  for (std::size_t i = 0; i < writes_.size(); ++i) place_[writes_[i]] = i;
  over_.resize(operations_.size());
  FindTurns();
  Sign();
  Configuration first;
  if (!begins_absent) {
    first.state.presence = State::Presence::kAny;
    first.state.exact = false;
    first.state.value = State::kAnyValue;
    first.state.expires_earliest = std::numeric_limits<Time>::min();
  }
  configurations_.push_back(first);
}

void KeyChecker::Sign() {
  signatures_.resize(operations_.size());
  std::vector<std::string> texts(operations_.size());
  // Of each client, what all of its writes of unknown outcome are alike in; empty: in nothing, or others come
  // behind them.
  std::unordered_map<std::uint32_t, std::string> all_of;
  for (std::uint32_t i = 0; i < operations_.size(); ++i) {
    if (!IsUnknown(i)) continue;
    texts[i] = register_.Signature(operations_[i]);
    std::string& all = all_of.emplace(operations_[i].client, texts[i]).first->second;
    if (behind_[i] != kNoPlace || all != texts[i]) all.clear();
  }
  std::unordered_map<std::string, std::size_t> signatures;
  for (std::uint32_t i = 0; i < operations_.size(); ++i) {
    if (!IsUnknown(i)) continue;
    // Else the others have their turns behind it, or may not come any more.
    const bool is_any_clients = !options_.writes_in_order || !all_of.at(operations_[i].client).empty();
    if (!is_any_clients) texts[i] += " of " + std::to_string(operations_[i].client);
    signatures_[i] = signatures.emplace(std::move(texts[i]), signatures.size()).first->second;
  }
  tried_.resize(signatures.size());
}

void KeyChecker::FindTurns() {
  before_.assign(operations_.size(), kNoPlace);
  behind_.assign(operations_.size(), kNoPlace);
  if (!options_.writes_in_order) return;
  std::vector<std::uint32_t> writes;
  for (std::uint32_t i = 0; i < operations_.size(); ++i) {
    if (IsWrite(operations_[i])) writes.push_back(i);
  }
  std::ranges::stable_sort(writes, {}, [&](std::uint32_t i) { return operations_[i].begun; });
  std::unordered_map<std::uint32_t, std::uint32_t> latest;  // by client
  for (const std::uint32_t i : writes) {
    if (const auto at = latest.find(operations_[i].client); at != latest.end()) before_[i] = at->second;
    if (!IsUnknown(i)) latest[operations_[i].client] = i;
  }
  latest.clear();
  for (auto i = writes.rbegin(); i != writes.rend(); ++i) {
    if (const auto at = latest.find(operations_[*i].client); at != latest.end()) behind_[*i] = at->second;
    if (place_[*i] != kNoPlace) latest[operations_[*i].client] = *i;
  }
}

KeyChecker::Result KeyChecker::Run() {
  for (const Event& event : events_) {
    Pass(event.time);
    looked_at_ = 0;
    if (!event.is_end) {
      Begin(event.operation);
    } else if (!End(event.operation)) {
      failed_ = event.operation;
      return undecided_ ? Result::kUndecided : Result::kNot;
    }
    if (undecided_) return Result::kUndecided;
  }
  return Result::kLinearizable;
}

void KeyChecker::Begin(std::uint32_t operation) {
  if (place_[operation] != kNoPlace) return;  // writes_ has it
  if (IsEffect(operations_[operation])) {
    unknown_.push_back(operation);
    return;
  }
  finding_.push_back(operation);
  for (Configuration& configuration : configurations_) Satisfy(&configuration);
}

bool KeyChecker::End(std::uint32_t operation) {
  if (IsUnknown(operation)) return true;
  std::vector<Configuration> reached;
  for (const Configuration& configuration : configurations_) {
    if (IsDone(configuration, operation)) {
      Add(configuration, &reached);
    } else {
      Expand(configuration, operation, operations_[operation].ended, &reached);
    }
  }
  if (reached.empty()) {
    for (const Configuration& configuration : configurations_) {
      const std::string text = register_.Text(configuration.state);
      if (possible_.find(text) == std::string::npos) possible_ += (possible_.empty() ? "" : "; or ") + text;
    }
    return false;
  }
  configurations_ = std::move(reached);
  Forget(operation);
  return true;
}

bool KeyChecker::IsDone(const Configuration& configuration, std::uint32_t operation) const {
  if (place_[operation] != kNoPlace) return place_[operation] < configuration.acknowledged;
  return IsIn(configuration.done, operation);
}

bool KeyChecker::HasItsTurn(const Configuration& configuration, std::uint32_t operation) const {
  const std::size_t before = before_[operation];
  if (before != kNoPlace && !over_[before] && !IsDone(configuration, static_cast<std::uint32_t>(before))) {
    return false;
  }
  if (!options_.writes_in_order || !IsUnknown(operation)) return true;
  const std::size_t behind = behind_[operation];
  if (behind != kNoPlace && place_[behind] < configuration.acknowledged) return false;
  return std::ranges::none_of(configuration.used,
                              [&](std::uint32_t used) { return IsBehind(used, operation); });
}

bool KeyChecker::IsBehind(std::uint32_t write, std::uint32_t other) const {
  return options_.writes_in_order && IsWrite(operations_[write]) &&
         operations_[write].client == operations_[other].client &&
         operations_[write].begun > operations_[other].begun;
}

void KeyChecker::Forget(std::uint32_t operation) {
  over_[operation] = true;
  std::erase(finding_, operation);
  std::vector<Configuration> kept;
  for (Configuration& configuration : configurations_) {
    std::erase(configuration.done, operation);
    Add(std::move(configuration), &kept);
  }
  configurations_ = std::move(kept);
  // An operation that is used wherever one looks tells nothing; nor does one that can have no turn any more.
  std::vector<std::uint32_t> past;
  for (const std::uint32_t unknown : unknown_) {
    const bool everywhere =
        std::ranges::all_of(configurations_, [&](const Configuration& c) { return IsIn(c.used, unknown); });
    // A rejection does not say that what came before it was not done: nobody had to look for it so far.
    const bool is_passed = place_[operation] != kNoPlace && IsBehind(operation, unknown);
    if (everywhere || is_passed) past.push_back(unknown);
  }
  if (past.empty()) return;
  std::erase_if(unknown_, [&](std::uint32_t unknown) {
    return std::ranges::any_of(past,
                               [&](std::uint32_t one) { return one == unknown || IsBehind(one, unknown); });
  });
  const auto is_gone = [&](std::uint32_t used) {
    return std::ranges::find(unknown_, used) == unknown_.end();
  };
  kept.clear();
  for (Configuration& configuration : configurations_) {
    std::erase_if(configuration.used, is_gone);
    Add(std::move(configuration), &kept);
  }
  configurations_ = std::move(kept);
}

void KeyChecker::Pass(Time now) {
  for (;;) {
    const auto due = std::ranges::find_if(
        configurations_, [&](const Configuration& c) { return c.state.expires_latest < now; });
    if (due == configurations_.end()) return;
    // Operations that were to find the record there have done so by then; or another write has come.
    const Configuration from = std::move(*due);
    configurations_.erase(due);
    std::vector<Configuration> reached;
    looked_at_ = 0;
    Expand(from, std::nullopt, from.state.expires_latest, &reached);
    for (Configuration& configuration : reached) {
      if (configuration.state == from.state) configuration.state = Register::Expired(from.state);
      Satisfy(&configuration);
      Add(std::move(configuration), &configurations_);
    }
    if (undecided_) return;
  }
}

std::uint64_t KeyChecker::NextVersion(const Configuration& configuration) const {
  if (configuration.acknowledged == writes_.size()) return std::numeric_limits<std::uint64_t>::max();
  return operations_[writes_[configuration.acknowledged]].version;
}

void KeyChecker::Satisfy(Configuration* configuration) {
  const std::uint64_t next_version = NextVersion(*configuration);
  for (const std::uint32_t operation : finding_) {
    if (IsIn(configuration->done, operation) || !HasItsTurn(*configuration, operation)) continue;
    const std::optional<State> found =
        register_.Find(operations_[operation], configuration->state, next_version);
    if (found == configuration->state) Insert(&configuration->done, operation);
  }
}

void KeyChecker::Expand(const Configuration& from, std::optional<std::uint32_t> goal, Time now,
                        std::vector<Configuration>* reached) {
  std::vector<Configuration> seen = {from};
  std::vector<Configuration> next;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    next.clear();
    Next(Configuration(seen[i]), now, &next);
    for (Configuration& configuration : next) {
      if (++looked_at_ > options_.max_states) {
        undecided_ = true;
        return;
      }
      Satisfy(&configuration);
      if (goal && IsDone(configuration, *goal)) {
        Add(std::move(configuration), reached);
        continue;
      }
      const bool is_new = std::ranges::none_of(
          seen, [&](const Configuration& known) { return known.IsAsGoodAs(configuration); });
      if (is_new) seen.push_back(std::move(configuration));
    }
  }
  if (goal) return;
  for (Configuration& configuration : seen) Add(std::move(configuration), reached);
}

void KeyChecker::Next(const Configuration& from, Time now, std::vector<Configuration>* next) {
  const std::uint64_t next_version = NextVersion(from);
  if (from.acknowledged < writes_.size()) {
    const Operation& write = operations_[writes_[from.acknowledged]];
    if (write.begun <= now && HasItsTurn(from, writes_[from.acknowledged])) {
      if (const std::optional<State> state = register_.Do(write, from.state, next_version)) {
        Configuration& to = next->emplace_back(from);
        to.state = *state;
        ++to.acknowledged;
      }
    }
  }
  tried_.assign(tried_.size(), false);
  for (const std::uint32_t operation : unknown_) {
    if (tried_[signatures_[operation]] || IsIn(from.used, operation) || !HasItsTurn(from, operation))
      continue;
    tried_[signatures_[operation]] = true;
    const std::optional<State> state = register_.Do(operations_[operation], from.state, next_version);
    if (!state) continue;
    Configuration& to = next->emplace_back(from);
    to.state = *state;
    Insert(&to.used, operation);
  }
  if (from.state.MayBePresent() && from.state.expires_earliest <= now) {
    next->emplace_back(from).state = Register::Expired(from.state);
  }
  // A result may say more of the state than was known.
  for (const std::uint32_t operation : finding_) {
    if (IsIn(from.done, operation)) continue;
    const std::optional<State> found = register_.Find(operations_[operation], from.state, next_version);
    if (found && !(*found == from.state)) next->emplace_back(from).state = *found;
  }
}

void KeyChecker::Add(Configuration configuration, std::vector<Configuration>* to) {
  for (const Configuration& other : *to) {
    if (other.IsAsGoodAs(configuration)) return;
  }
  std::erase_if(*to, [&](const Configuration& other) { return configuration.IsAsGoodAs(other); });
  to->push_back(std::move(configuration));
}

}  // namespace remora::linear
