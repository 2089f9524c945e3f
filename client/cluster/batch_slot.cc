#include "client/cluster/batch_slot.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/format/cluster/slot.h"

namespace remora {
namespace {

/// Returns a key for an error: in quotes, and not too long.
std::string Shown(std::string_view key) {
  constexpr std::size_t kMaxShown = 60;
  return absl::StrCat("'", absl::CHexEscape(AbslView(key.substr(0, kMaxShown))),
                      key.size() > kMaxShown ? "...'" : "'");
}

}  // namespace

absl::StatusOr<std::uint32_t> SlotOfBatch(const WriteBatch& batch) {
  if (const std::string why = batch.fault(); !why.empty()) return absl::InvalidArgumentError(why);
  if (batch.count() == 0) return std::uint32_t{0};
  std::string_view left = batch.bytes();
  const std::string_view first = TakeBatchWrite(&left)->key;
  const std::uint32_t slot = SlotOf(first);
  while (const std::optional<BatchWrite> write = TakeBatchWrite(&left)) {
    if (SlotOf(write->key) == slot) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("batch: the keys ", Shown(first), " and ", Shown(write->key),
                     " have different slots, and a batch stays in one; give both the same {tag}"));
  }
  return slot;
}

}  // namespace remora
