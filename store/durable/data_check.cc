#include "store/durable/data_check.h"

#include <algorithm>
#include <memory>

#include "store/base/status_macros.h"
#include "store/durable/tier.h"
#include "store/format/types/expiry.h"

namespace remora {

absl::StatusOr<DataReport> CheckData(const std::string& data_dir, std::int64_t unix_ms) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DurableTier> tier,
                          DurableTier::Open(data_dir, {.read_only = true}));
  REMORA_RETURN_IF_ERROR(tier->VerifyTables());
  DataReport report;
  report.log_is_torn = tier->log_was_torn();
  REMORA_RETURN_IF_ERROR(tier->ForEach([&](const DurableTier::Entry& entry) {
    ++report.keys;
    report.bytes += entry.key.size() + entry.value.size();
    report.expiring += entry.header.expiry_ms != 0;
    report.expired += HasExpired(entry.header.expiry_ms, unix_ms);
    report.last_version = std::max(report.last_version, entry.header.version);
    return absl::OkStatus();
  }));
  REMORA_ASSIGN_OR_RETURN(const std::vector<ClientCompletions> clients, tier->Clients());
  report.clients = clients.size();
  return report;
}

}  // namespace remora
