#include "tools/kvgate/commands/store_calls.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "store/base/moved.h"
#include "store/format/types/bounds.h"

namespace remora::kvgate {

bool IsMissing(const absl::Status& status, std::string_view key) {
  return absl::IsNotFound(status) || (absl::IsInvalidArgument(status) && !IsKey(key));
}

bool IsOvertaken(const absl::Status& status) {
  if (IsMoved(status)) return false;
  return absl::IsFailedPrecondition(status) || absl::IsAlreadyExists(status) || absl::IsNotFound(status) ||
         absl::IsOutOfRange(status);
}

void FailCall(Call& call, const absl::Status& status) {
  absl::string_view kind = "ERR ";
  if (absl::IsResourceExhausted(status)) kind = "OOM ";
  if (absl::IsPermissionDenied(status)) kind = "NOPERM ";
  if (absl::StartsWith(status.message(), kCrossSlot)) kind = "";
  call.reply.Clear();
  call.reply.Error(absl::StrCat(kind, status.message()));
}

void FailOvertaken(Call& call) {
  call.reply.Clear();
  call.reply.Error("ERR other clients change the key all the time; try again");
}

Task<absl::StatusOr<std::optional<KeyRecord>>> FindRecord(KeyStore& kv, std::string_view key) {
  absl::StatusOr<KeyRecord> found = co_await kv.GetRecord(key);
  if (found.ok()) co_return std::optional<KeyRecord>(*std::move(found));
  if (IsMissing(found.status(), key)) co_return std::optional<KeyRecord>();
  co_return found.status();
}

Task<absl::StatusOr<std::optional<KeyExpiry>>> FindExpiry(KeyStore& kv, std::string_view key) {
  const absl::StatusOr<KeyExpiry> found = co_await kv.GetExpiry(key);
  if (found.ok()) co_return std::optional<KeyExpiry>(*found);
  if (IsMissing(found.status(), key)) co_return std::optional<KeyExpiry>();
  co_return found.status();
}

}  // namespace remora::kvgate
