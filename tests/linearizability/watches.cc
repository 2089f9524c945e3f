#include "tests/linearizability/watches.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace remora::linear {
namespace {

std::string Text(const WatchResult::Change& change) {
  return "    shown at " + std::to_string(change.shown) + ": " + change.key +
         (change.version == 0 ? " is gone" : ", version " + std::to_string(change.version)) + ", sequence " +
         std::to_string(change.sequence);
}

/// Writes of all operations with versions, in their order, and the keys of those without.
struct VersionedWrites {
  std::vector<const Operation*> known;
  std::unordered_map<std::uint64_t, const Operation*> by_version;
  std::unordered_set<std::string> of_unknown;
};

/// W1 and W2.
std::string WrongOrder(const WatchResult& watch, const VersionedWrites& writes) {
  const WatchResult::Change* last = nullptr;
  const WatchResult::Change* last_put = nullptr;
  for (const WatchResult::Change& change : watch.changes) {
    if (last != nullptr && last->sequence >= change.sequence) {
      return "shows a change twice, or in another order:\n" + Text(*last) + "\n" + Text(change);
    }
    last = &change;
    if (change.version == 0) continue;
    if (last_put != nullptr && last_put->version >= change.version) {
      return "shows versions in another order:\n" + Text(*last_put) + "\n" + Text(change);
    }
    last_put = &change;
    const auto known = writes.by_version.find(change.version);
    if (known == writes.by_version.end()) {
      if (!writes.of_unknown.contains(change.key)) return "shows what nobody wrote:\n" + Text(change);
      continue;
    }
    const Operation& write = *known->second;
    const bool is_it = write.key == change.key && write.kind != Kind::kDelete &&
                       (write.kind != Kind::kPut || write.value == change.value);
    if (!is_it || write.begun > change.shown) {
      return "shows what nobody wrote so, or before:\n" + Text(change) + "\n    " + Text(write);
    }
  }
  return "";
}

/// W3. The first write that is not shown; null: there is none.
const Operation* Missing(const WatchResult& watch, const VersionedWrites& writes) {
  std::vector<const WatchResult::Change*> puts;
  for (const WatchResult::Change& change : watch.changes) {
    if (change.version != 0) puts.push_back(&change);
  }
  const std::uint64_t first = puts.empty() ? 0 : puts.front()->version;
  const std::uint64_t last = puts.empty() ? 0 : puts.back()->version;
  for (const Operation* write : writes.known) {
    const bool is_due =
        (first != 0 && write->version > first && write->version < last) ||
        (write->begun > watch.opened && (write->version < last || write->ended < watch.caught_up));
    if (!is_due) continue;
    const auto behind = std::ranges::lower_bound(puts, write->version, {},
                                                 [](const WatchResult::Change* put) { return put->version; });
    if (write->kind != Kind::kDelete) {
      if (behind == puts.end() || (*behind)->version != write->version) return write;
      continue;
    }
    // Between the puts before and behind it.
    const auto* from = behind == puts.begin() ? watch.changes.data() : *(behind - 1);
    const auto* const to = behind == puts.end() ? watch.changes.data() + watch.changes.size() : *behind;
    const bool is_shown = std::any_of(from, to, [&](const WatchResult::Change& change) {
      return change.version == 0 && change.key == write->key;
    });
    if (!is_shown) return write;
  }
  return nullptr;
}

}  // namespace

void CheckWatches(const std::vector<WatchResult>& watches, const std::vector<Operation>& operations,
                  std::vector<std::string>* faults) {
  if (watches.empty()) return;
  VersionedWrites writes;
  for (const Operation& operation : operations) {
    if (!IsEffect(operation)) continue;
    if (operation.version == 0) {
      writes.of_unknown.insert(operation.key);
      continue;
    }
    writes.by_version[operation.version] = &operation;
    writes.known.push_back(&operation);
  }
  std::ranges::sort(writes.known, {}, &Operation::version);
  for (const WatchResult& watch : watches) {
    const std::string who = "a watch of client " + std::to_string(watch.client) + " from " +
                            std::to_string(watch.opened) + " on ";
    if (const std::string wrong = WrongOrder(watch, writes); !wrong.empty()) {
      faults->push_back(who + wrong);
    } else if (const Operation* missing = Missing(watch, writes)) {
      faults->push_back(who + "leaves out:\n    " + Text(*missing));
    }
  }
}

void EndShown(const std::vector<WatchResult>& watches, std::map<std::string, std::vector<Operation>>* keys) {
  std::unordered_map<std::uint64_t, const WatchResult::Change*> shown;  // when first
  for (const WatchResult& watch : watches) {
    for (const WatchResult::Change& change : watch.changes) {
      if (change.version == 0) continue;
      const auto [at, is_first] = shown.emplace(change.version, &change);
      if (!is_first && change.shown < at->second->shown) at->second = &change;
    }
  }
  if (shown.empty()) return;
  for (auto& [key, operations] : *keys) {
    for (Operation& operation : operations) {
      const auto at = shown.find(operation.version);
      if (!IsEffect(operation) || operation.version == 0 || at == shown.end()) continue;
      if (at->second->shown >= operation.begun)
        operation.ended = std::min(operation.ended, at->second->shown);
    }
  }
}

}  // namespace remora::linear
