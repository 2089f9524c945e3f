#include "tests/linearizability/scans.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace remora::linear {
namespace {

bool MayExpire(const Operation& operation) {
  return operation.ttl.has_value() && *operation.ttl != kNeverExpires;
}

/// Writes of one key whose versions are known, in their order.
struct Writes {
  std::vector<const Operation*> known;
  bool may_be_gone = false;  // by itself, or by a write of which nothing is known
};

std::string NameOf(const ScanResult& scan) {
  return "a scan of client " + std::to_string(scan.client) + " from " + std::to_string(scan.begun) + " to " +
         std::to_string(scan.ended);
}

/// Says where the keys of a scan do not strictly ascend, or descend. Empty: they do.
std::string Disorder(const ScanResult& scan) {
  for (std::size_t i = 1; i < scan.entries.size(); ++i) {
    const std::string &before = scan.entries[i - 1].key, &key = scan.entries[i].key;
    if (scan.is_reverse ? key < before : before < key) continue;
    return NameOf(scan) + " shows '" + key + "' behind '" + before + "'";
  }
  return "";
}

using Keys = std::unordered_map<std::string, Writes>;

/// The first write that shows that the scan is of no version's moment. Null: there may be one.
const Operation* NoMoment(const ScanResult& scan, const ScanResult::Entry& last, const Keys& keys) {
  std::unordered_map<std::string, std::uint64_t> shown;
  for (const ScanResult::Entry& entry : scan.entries) shown[entry.key] = entry.version;
  // From the last that was shown on; each key that was not shown puts it off, until that was deleted.
  std::uint64_t moment = last.version;
  for (bool is_put_off = true; is_put_off;) {
    is_put_off = false;
    for (const auto& [key, writes] : keys) {
      const auto behind = std::ranges::upper_bound(writes.known, moment, {}, &Operation::version);
      if (behind == writes.known.begin()) continue;
      const Operation& write = **(behind - 1);
      const auto entry = shown.find(key);
      if (entry != shown.end()) {
        if (entry->second < write.version) return &write;
      } else if (write.kind != Kind::kDelete && !writes.may_be_gone) {
        const auto gone = std::find_if(behind, writes.known.end(),
                                       [](const Operation* next) { return next->kind == Kind::kDelete; });
        if (gone == writes.known.end()) return &write;
        moment = (*gone)->version;
        is_put_off = true;
      }
    }
  }
  return nullptr;
}

}  // namespace

void CheckScans(const std::vector<ScanResult>& scans, const std::vector<Operation>& operations,
                std::vector<std::string>* faults) {
  if (scans.empty()) return;
  Keys keys;
  for (const Operation& operation : operations) {
    if (!IsEffect(operation)) continue;
    Writes& writes = keys[operation.key];
    if (operation.version != 0) writes.known.push_back(&operation);
    writes.may_be_gone = writes.may_be_gone || MayExpire(operation) || operation.version == 0;
  }
  for (auto& [key, writes] : keys) std::ranges::sort(writes.known, {}, &Operation::version);
  for (const ScanResult& scan : scans) {
    if (scan.entries.empty()) continue;
    if (scan.is_one_sided) {
      if (const std::string disorder = Disorder(scan); !disorder.empty()) faults->push_back(disorder);
      continue;
    }
    const auto last = std::ranges::max_element(scan.entries, {}, &ScanResult::Entry::version);
    const Operation* const write = NoMoment(scan, *last, keys);
    if (write == nullptr) continue;
    faults->push_back(NameOf(scan) + " shows '" + last->key + "' of version " +
                      std::to_string(last->version) + ", and not what was done before that:\n    " +
                      Text(*write));
  }
}

void AddGets(const ScanResult& scan, std::map<std::string, std::vector<Operation>>* keys) {
  Operation get;
  get.client = scan.client;
  get.kind = Kind::kGet;
  get.begun = scan.begun;
  std::unordered_map<std::string, bool> shown;
  for (const ScanResult::Entry& entry : scan.entries) {
    shown[entry.key] = true;
    get.key = entry.key;
    get.outcome = Outcome::kOk;
    get.value = entry.value;
    get.version = entry.version;
    get.ended = scan.is_one_sided ? entry.shown : scan.opened;
    (*keys)[entry.key].push_back(get);
  }
  if (!scan.is_whole) return;
  get.outcome = Outcome::kNotFound;
  get.value.clear();
  get.version = 0;
  for (auto& [key, operations] : *keys) {
    if (shown.contains(key)) continue;
    get.key = key;
    get.ended = scan.is_one_sided ? scan.ended : scan.opened;
    get.looked_until = scan.ended;  // a record may have expired before it arrived
    operations.push_back(get);
  }
}

}  // namespace remora::linear
