#include "tools/kvctl/redis/comparison.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"

namespace remora::kvctl {

void RecordSum::Add(std::string_view key, std::string_view value) {
  ++records_;
  // The hash of the key is the seed for that of the value, so that no byte can move from one to the other.
  hash_ += XXH3_64bits_withSeed(value.data(), value.size(), XXH3_64bits(key.data(), key.size()));
}

void Comparison::Add(std::string_view key, std::string_view source, std::optional<std::string_view> target,
                     std::string* lines) {
  source_.Add(key, source);
  if (target) target_.Add(key, *target);
  if (target == source) return;
  ++different_;
  lines->append(target ? "different\t" : "missing\t");
  AppendEscaped(key, lines);
  lines->push_back('\n');
}

Outcome Comparison::Report() const {
  Outcome outcome = WriteOutput(absl::StrFormat(
      "source_records %d\nsource_hash %016x\ntarget_records %d\ntarget_hash %016x\ndifferent %d\n",
      source_.records(), source_.hash(), target_.records(), target_.hash(), different_));
  if (Failed(outcome) || different_ == 0) return outcome;
  return {kExitProblem,
          absl::StrFormat("--verify: %d records differ, which the lines above name; those that clients wrote "
                          "meanwhile may",
                          different_)};
}

}  // namespace remora::kvctl
