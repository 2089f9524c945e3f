// Configurations of shards, as etcd has them: one that is read is well formed, and is written as the same.
#include <string>

#include "absl/status/statusor.h"
#include "server/cluster/shard_configuration.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const auto configuration = DecodeConfiguration(input.rest());
  if (!configuration.ok()) {
    FUZZ_CHECK(absl::IsDataLoss(configuration.status()));
    return 0;
  }
  FUZZ_CHECK(CheckConfiguration(*configuration).ok());
  const auto again = DecodeConfiguration(EncodeConfiguration(*configuration));
  FUZZ_CHECK(again.ok() && *again == *configuration);
  // Of each change that is allowed, the result is well formed, too.
  for (const Replica& one : configuration->replicas) {
    const Member member{.id = one.id, .life = 1};
    for (const auto& next :
         {BeginShard(*configuration, member), TakeOver(*configuration, member, ~std::uint64_t{0}),
          Shrink(*configuration, configuration->primary, true, one.id),
          Join(*configuration, configuration->primary, member),
          Switch(*configuration, configuration->primary, one.id, ~std::uint64_t{0}),
          RemoveReplica(*configuration, one.id, 0), RemoveReplica(*configuration, one.id, 1),
          AddReplica(*configuration, {.id = one.id + "x", .address = one.address + "x"}, 0),
          ForceTakeOver(*configuration, member, size + 1, size)}) {
      FUZZ_CHECK(!next.ok() || CheckConfiguration(*next).ok());
    }
  }
  return 0;
}
