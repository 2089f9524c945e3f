#include "server/cluster/division_swap.h"

#include <array>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/cluster/keeper.h"
#include "server/cluster/shard_configuration.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

absl::Status NotYet(const absl::Status& why) {
  return absl::UnavailableError(absl::StrCat("move: ", why.message()));
}

absl::Status Stays(absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("move: the slots stay where they are: ", why, "; try again"));
}

}  // namespace

absl::Status DivisionSwap::Step(ConfigStore& store, const ConfigStore::Revision& own) {
  return sent_ ? Settle(store) : Try(store, own);
}

absl::Status DivisionSwap::Try(ConfigStore& store, const ConfigStore::Revision& own) {
  const std::string key = DivisionKey(self_.cluster);
  const absl::StatusOr<ConfigStore::Value> division = store.Read(key);
  if (!division.ok()) return NotYet(division.status());
  const std::string to_key = ShardKey(IdentityText(wanted_.to));
  const absl::StatusOr<ConfigStore::Value> to = store.Read(to_key);
  if (!to.ok()) return NotYet(to.status());
  const absl::StatusOr<ShardConfiguration> destination = DecodeConfiguration(to->text);
  if (!destination.ok()) return Stays(destination.status().message());
  if (destination->epoch != wanted_.to_epoch) {  // K21
    return Stays("the destination has another primary since it confirmed the copy");
  }
  const absl::StatusOr<std::string> next =
      format_->WithMoved(division->text, wanted_.slots, self_, wanted_.to.name());
  if (!next.ok()) return Stays(next.status().message());
  const std::array<ConfigStore::Revision, 2> others = {own, {.key = to_key, .revision = to->revision}};
  const absl::StatusOr<std::int64_t> swapped = store.Swap(key, division->revision, *next, others);  // K20
  if (swapped.ok()) return absl::OkStatus();
  if (absl::IsUnknown(swapped.status())) sent_ = Sent{division->text, division->revision};
  return NotYet(swapped.status());
}

absl::Status DivisionSwap::Settle(ConfigStore& store) {
  const std::string key = DivisionKey(self_.cluster);
  const absl::StatusOr<ConfigStore::Value> division = store.Read(key);
  if (!division.ok()) return NotYet(division.status());
  if (division->revision == sent_->revision) {  // K22
    const absl::StatusOr<std::int64_t> swapped = store.Swap(key, sent_->revision, sent_->text);
    return swapped.ok() ? Stays("etcd did not answer") : NotYet(swapped.status());
  }
  const absl::StatusOr<DivisionView> view = format_->Read(division->text, self_);
  if (!view.ok()) return NotYet(view.status());
  return view->own.HasAll(wanted_.slots) ? Stays("etcd did not answer") : absl::OkStatus();
}

}  // namespace remora
