// An ordered set of keys under changes that the input names, with nodes of a few keys. It agrees with a
// std::set, and its invariants hold after each change. The keys come from clients.
#include <iterator>
#include <set>
#include <string>

#include "store/ordered/ordered_keys.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

constexpr std::size_t kMostChanges = 400;

/// A key of up to eight bytes of the input, or a long one.
std::string TakeKey(Input* input) {
  const auto shape = input->Take<std::uint8_t>();
  std::string key((shape & 0x80) != 0 ? (shape & 0x7f) * 32 : 0, 'k');
  key += input->Bytes(1 + shape % 8);
  if (key.empty()) key = "k";
  return key.substr(0, 4096);
}

void CheckRange(const OrderedKeys& keys, const std::set<std::string>& model, const std::string& begin,
                const std::string& end, std::size_t most) {
  const auto from = model.lower_bound(begin);
  const bool is_empty = !end.empty() && begin >= end;
  const auto to = is_empty ? from : end.empty() ? model.end() : model.lower_bound(end);
  const auto count = static_cast<std::size_t>(std::distance(from, to));
  FUZZ_CHECK(keys.Count(begin, end) == count);
  KeyBatch batch;
  keys.First(begin, end, most, &batch);
  FUZZ_CHECK(batch.size() == std::min(most, count));
  auto next = from;
  for (std::size_t i = 0; i < batch.size(); ++i) FUZZ_CHECK(batch[i] == *next++);
  keys.Last(begin, end, most, &batch);
  FUZZ_CHECK(batch.size() == std::min(most, count));
  auto last = to;
  for (std::size_t i = 0; i < batch.size(); ++i) FUZZ_CHECK(batch[i] == *--last);
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  remora::Input input(data, size);
  const auto shape = input.Take<std::uint8_t>();
  remora::OrderedKeys keys(
      {.leaf_capacity = std::size_t{16} + shape % 64, .fanout = std::size_t{4} + shape / 64});
  std::set<std::string> model;
  for (std::size_t i = 0; i < remora::kMostChanges && !input.empty(); ++i) {
    const auto change = input.Take<std::uint8_t>();
    const std::string key = remora::TakeKey(&input);
    if (change % 4 == 0) {
      remora::CheckRange(keys, model, key, change % 8 == 0 ? "" : remora::TakeKey(&input), 1 + change / 8);
    } else if (change % 4 == 1) {
      FUZZ_CHECK(keys.Erase(key) == (model.erase(key) == 1));
    } else {
      FUZZ_CHECK(keys.Insert(key) == model.insert(key).second);
    }
    FUZZ_CHECK(keys.Has(key) == model.contains(key));
    FUZZ_CHECK(keys.FindFault().empty());
  }
  FUZZ_CHECK(keys.size() == model.size());
  return 0;
}
