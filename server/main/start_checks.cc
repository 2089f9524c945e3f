#include "server/main/start_checks.h"

#include <sysexits.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/tls.h"
#include "rdma/transport.h"
#include "server/connection/auth_tokens.h"
#include "server/connection/client_session.h"
#include "server/http/http_listener.h"
#include "server/http/monitor_service.h"
#include "server/main/child_program.h"
#include "server/main/cluster_flags.h"
#include "server/main/descriptors.h"
#include "server/main/exit_status.h"
#include "server/main/redis_gate.h"
#include "server/main/replication_flags.h"
#include "server/main/thread_priority.h"
#include "server/memory/memory_reserve.h"
#include "server/memory/system_memory.h"
#include "server/replication/history.h"
#include "server/replication/replication_service.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"
#include "store/durable/tier_log/tier_log.h"
#include "store/durable/tier_log/tier_log_options.h"

namespace remora {
namespace {

/// Reads the certificates and keys for tls:// addresses, if there is one.
absl::Status CheckTlsMeans(const Flags& flags) {
  if (std::ranges::none_of(flags.listen, &rdma::Address::tls)) return absl::OkStatus();
  std::vector<Token> tokens;
  if (!flags.server.tokens_file.empty()) {
    REMORA_ASSIGN_OR_RETURN(tokens, ReadTokens(flags.server.tokens_file));
  }
  REMORA_ASSIGN_OR_RETURN(const std::shared_ptr<rdma::ServerTls> tls, rdma::ServerTls::Create(flags.tls));
  return tls->Load(SecretsOf(tokens));
}

absl::Status CheckDataDir(const Flags& flags) {
  const StoreOptions& store = flags.server.store;
  if (store.data_dir.empty()) return absl::OkStatus();
  REMORA_RETURN_IF_ERROR(CheckHistory(store.data_dir, flags.server.replication).status());
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> dir,
                          DataDir::Examine(store.data_dir, kStoreDir, store.shard));
  return dir == nullptr ? absl::OkStatus() : TierLog::CheckUse(*dir, store.commit_log_bytes > 0);
}

absl::Status CheckBackupDir(const Flags& flags) {
  if (flags.server.backup_dir.empty()) return absl::OkStatus();
  return DataDir::Examine(flags.server.backup_dir, kBackupDir, {}).status();
}

absl::Status CheckHttp(const Flags& flags) {
  if (flags.http.empty()) return absl::OkStatus();
  absl::Status usable = CheckHttpAddress(flags.http, flags.insecure_http);
  return absl::IsAlreadyExists(usable) ? absl::OkStatus() : usable;
}

}  // namespace

/// Splits memory and descriptors, and puts the result into `flags`.
absl::StatusOr<MemoryPlan> ApplyMemoryPlan(Flags* flags, std::vector<StartEvent>* events) {
  const SystemMemory system = ReadSystemMemory();
  REMORA_RETURN_IF_ERROR(CheckMemory(flags->memory, system));
  const bool is_durable = !flags->server.store.data_dir.empty();
  StoreOptions& store = flags->server.store;
  REMORA_RETURN_IF_ERROR(CheckChangeLog(store.change_log_bytes, flags->memory, system));
  store.write_buffer_bytes = WriteBufferFor(system);
  if (store.commit_log_bytes > 0) {
    EnlargeMemoryReserve(ApplierMemory(store.commit_log_bytes, store.write_buffer_bytes));
  }
  if (!FitsAvailable(flags->memory + store.change_log_bytes, system, is_durable)) {
    events->push_back(
        {LogEvent::kMemoryScarce,
         absl::StrCat("--memory is ", flags->memory, " bytes, beside which the server takes up to ",
                      BesideMemory(system, is_durable) + store.change_log_bytes, ", and ",
                      system.whose_available, " has ", system.available,
                      " available: when it fills, the system may kill this server")});
  }

  const rdma::QueueLimits limits;
  const SessionBytes session = ClientSession::MaxRegisteredBytes();
  REMORA_ASSIGN_OR_RETURN(MemoryPlan plan,
                          PlanMemory(flags->memory, flags->max_clients, flags->listen, limits, session));
  const std::size_t open = OpenDescriptors() + (flags->http.empty() ? 0 : MonitorService::kDescriptors) +
                           (flags->gate.addresses.empty() ? 0 : ChildProgram::kDescriptors);
  REMORA_ASSIGN_OR_RETURN(const DescriptorPlan descriptors,
                          PlanDescriptors(RaiseDescriptorLimit(), open, flags->max_clients.value_or(1),
                                          is_durable, flags->listen));
  if (plan.max_clients > descriptors.max_clients) {
    flags->server.max_clients_by = "its limit of descriptors allows (ulimit -n)";
    REMORA_ASSIGN_OR_RETURN(
        plan, PlanMemory(flags->memory, descriptors.max_clients, flags->listen, limits, session));
  }
  flags->server.store.memory_size = plan.region_size;
  flags->server.max_clients = plan.max_clients;
  flags->server.store.max_open_files = descriptors.StoreShare(plan.max_clients);
  std::string note =
      absl::StrCat("clients: ", plan.max_clients, " at most; the limit of open files (ulimit -n) is ",
                   descriptors.limit, ", enough for ", descriptors.max_clients);
  if (is_durable) {
    absl::StrAppend(&note, "; of these files, the store may open ", flags->server.store.max_open_files);
  }
  events->push_back({LogEvent::kClientLimit, std::move(note)});
  std::string split =
      absl::StrCat("memory: ", plan.region_size, " bytes for index and records, and ", plan.client_bytes,
                   " bytes for each of ", plan.max_clients, " clients at most");
  if (store.change_log_bytes > 0) {
    absl::StrAppend(&split, "; beside them, ", store.change_log_bytes, " bytes for the change log");
  }
  events->push_back({LogEvent::kMemoryPlan, std::move(split)});
  return plan;
}

/// Reads the files of tokens, of which the server itself reads --tokens anew. Errors are those of ReadTokens.
absl::Status CheckTokens(Flags* flags) {
  if (!flags->server.tokens_file.empty()) {
    REMORA_RETURN_IF_ERROR(ReadTokens(flags->server.tokens_file).status());
  }
  REMORA_RETURN_IF_ERROR(ReadReplicationToken(flags));
  return ReadClusterSecrets(flags);
}

int CheckConfig(Flags* flags, const std::function<void(const std::string& fault)>& report) {
  int exit_status = EX_OK;
  const auto check = [&](const absl::Status& checked, int status) {
    if (checked.ok()) return;
    report(std::string(checked.message()));
    if (exit_status == EX_OK) exit_status = status;
  };
  const absl::Status tokens = CheckTokens(flags);
  check(tokens, TokensExitStatus(tokens));
  if (!flags->gate.addresses.empty()) check(FindGate().status(), EX_UNAVAILABLE);
  if (tokens.ok()) {
    const absl::Status tls = CheckTlsMeans(*flags);
    check(tls, TokensExitStatus(tls));
  }
  std::vector<StartEvent> events;
  const absl::Status memory = ApplyMemoryPlan(flags, &events).status();
  check(memory, StoreExitStatus(memory));
  for (const absl::Status& listening : {CheckHttp(*flags), rdma::CheckUsable(flags->listen)}) {
    check(listening, ListenExitStatus(listening));
  }
  check(RaiseThreadPriority(flags->nice), EX_NOPERM);
  for (const absl::Status& folder : {CheckBackupDir(*flags), CheckDataDir(*flags)}) {
    check(folder, StoreExitStatus(folder));
  }
  if (exit_status != EX_OK) return exit_status;
  for (const StartEvent& event : events) std::printf("kvserver: %s\n", event.text.c_str());
  std::printf("kvserver: no fault was found; nothing was made or opened\n");
  return std::fflush(stdout) == 0 ? EX_OK : EX_IOERR;
}

}  // namespace remora
