#include "tests/linearizability/batches.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace remora::linear {

void EndBatches(std::map<std::string, std::vector<Operation>>* keys) {
  std::unordered_map<std::uint64_t, std::vector<Operation*>> batches;
  std::unordered_map<std::uint64_t, Time> found;  // by version
  for (auto& [key, operations] : *keys) {
    for (Operation& operation : operations) {
      if (operation.batch != 0 && IsEffect(operation)) batches[operation.batch].push_back(&operation);
      if (operation.kind != Kind::kGet || operation.outcome != Outcome::kOk) continue;
      const auto [at, is_first] = found.emplace(operation.version, operation.ended);
      if (!is_first) at->second = std::min(at->second, operation.ended);
    }
  }
  for (auto& [batch, writes] : batches) {
    std::ranges::sort(writes, {}, &Operation::batch_place);
    for (const Operation* known : writes) {
      if (known->version == 0) continue;
      for (Operation* write : writes) {
        if (write->version != 0) continue;
        write->version = known->version - known->batch_place + write->batch_place;
      }
      break;
    }
    Time seen = kNever;
    for (auto write = writes.rbegin(); write != writes.rend(); ++write) {
      Operation& operation = **write;
      if (seen < operation.ended && seen >= operation.begun) operation.ended = seen;
      const auto at = found.find(operation.version);
      if (operation.version != 0 && at != found.end()) seen = std::min(seen, at->second);
    }
  }
}

}  // namespace remora::linear
