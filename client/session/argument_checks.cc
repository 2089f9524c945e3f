#include "client/session/argument_checks.h"

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"
#include "store/format/types/bounds.h"
#include "store/format/types/expiry.h"

namespace remora {
namespace {

absl::Status CheckValue(std::string_view value) {
  if (value.size() <= kMaxValueSize) return absl::OkStatus();
  return absl::InvalidArgumentError(NoValue(value.size()));
}

}  // namespace

absl::Status CheckKey(std::string_view key) {
  if (IsKey(key)) return absl::OkStatus();
  return absl::InvalidArgumentError(NoKey(key.size()));
}

absl::Status CheckTtl(std::chrono::milliseconds ttl) {
  if (IsTtl(ttl)) return absl::OkStatus();
  return absl::InvalidArgumentError(NoTtl(ttl));
}

absl::Status CheckDurability(std::optional<Durability> durability) {
  if (IsDurability(durability)) return absl::OkStatus();
  return absl::InvalidArgumentError(AbslView(kNoSuchDurability));
}

absl::Status CheckWrite(std::string_view key, const Condition& condition,
                        std::optional<Durability> durability) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  REMORA_RETURN_IF_ERROR(CheckDurability(durability));
  if (condition.IsValid()) return absl::OkStatus();
  return absl::InvalidArgumentError(AbslView(kNoSuchVersion));
}

absl::Status CheckPut(std::string_view key, std::string_view value, const PutOptions& options) {
  REMORA_RETURN_IF_ERROR(CheckWrite(key, options.condition, options.durability));
  REMORA_RETURN_IF_ERROR(CheckValue(value));
  return options.ttl ? CheckTtl(*options.ttl) : absl::OkStatus();
}

absl::Status CheckAppended(std::string_view bytes) {
  if (bytes.size() <= kMaxSmallValueSize) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("append: the value would have ", bytes.size(),
                                            " bytes or more; what is appended to has ", kMaxSmallValueSize,
                                            " at most"));
}

}  // namespace remora
