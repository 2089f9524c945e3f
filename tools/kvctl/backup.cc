// backup, backups, restore and check.
#include "store/backup.h"

#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology.h"
#include "store/base/clock.h"
#include "store/base/random_id.h"
#include "store/base/shortage.h"
#include "store/durable/data_check.h"
#include "store/durable/data_dir.h"
#include "store/durable/tier.h"
#include "store/durable/tier_log/tier_log_options.h"
#include "store/durable/wal/wal_archive.h"
#include "tools/command_line/say.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/progress.h"
#include "tools/kvctl/sets/commands.h"

namespace remora::kvctl {
namespace {

std::string BackupLines(const BackupInfo& info) {
  return absl::StrFormat("id %d\nversion %d\nbytes %d\nnew_bytes %d\n", info.id, info.version, info.bytes,
                         info.new_bytes);
}

Outcome ShowMade(const BackupInfo& info) {
  return WriteOutput(BackupLines(info),
                     absl::StrFormat("the backup is made, and has the number %d", info.id));
}

absl::StatusOr<BackupInfo> BackUpStopped(const Arguments& arguments) {
  // One that is not there is not to be made; nor does a backup take changes from those that watch.
  DurableTierOptions options{.log_retention = {.bytes = std::numeric_limits<std::uint64_t>::max()}};
  {
    const auto store = DataDir::OpenToRead(arguments.data_dir);
    if (!store.ok()) return store.status();
    // The size has no effect here: a backup logs nothing.
    if ((*store)->has_commit_log()) options.commit_log_bytes = kMinTierLogBytes;
  }
  auto tier = DurableTier::Open(arguments.data_dir, options);
  if (!tier.ok()) return tier.status();
  return (*tier)->Backup(arguments.to, {.version = (*tier)->version_limit() - 1, .keep = arguments.keep});
}

}  // namespace

Outcome FromOffline(const absl::Status& status) {
  const auto exit_code = [&status] {
    if (IsShortage(status)) return EX_OSERR;
    switch (status.code()) {
      case absl::StatusCode::kDataLoss:
        return kExitDamaged;
      case absl::StatusCode::kNotFound:
        return EX_NOINPUT;
      case absl::StatusCode::kFailedPrecondition:
        return EX_CONFIG;
      case absl::StatusCode::kAlreadyExists:
        return EX_TEMPFAIL;
      case absl::StatusCode::kPermissionDenied:
        return EX_NOPERM;
      case absl::StatusCode::kResourceExhausted:
        return EX_OSERR;
      case absl::StatusCode::kUnavailable:
        return EX_IOERR;
      default:
        return EX_SOFTWARE;
    }
  };
  return {exit_code(), std::string(status.message())};
}

std::string TimeOfBackup(std::int64_t unix_s) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(unix_s), absl::UTCTimeZone());
}

Outcome BackupOffline(const Arguments& arguments) {
  const absl::StatusOr<BackupInfo> info = BackUpStopped(arguments);
  return info.ok() ? ShowMade(*info) : FromOffline(info.status());
}

namespace {

/// A backup that a shard's server makes.
struct ShardBackup {
  Client* server = nullptr;
  std::uint64_t name = RandomId();  // for Client::Backup
  bool waits = false;               // for another backup
  bool is_done = false;
};

Outcome FailedBackup(const absl::Status& status) {
  if (absl::IsAlreadyExists(status)) return {EX_TEMPFAIL, std::string(status.message())};
  Outcome outcome = FromAnswer(status);
  if (absl::IsNotFound(status)) outcome.exit_code = EX_UNAVAILABLE;
  return outcome;
}

}  // namespace

Outcome BackUpAll(ClusterClient& client, bool waits, const Clock& clock, std::vector<BackupInfo>* made) {
  const std::span<const ShardPlace> places = client.topology().shards();
  std::vector<ShardBackup> shards(client.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const absl::StatusOr<Client*> server = client.shard(i);
    if (!server.ok()) return FailedBackup(server.status());
    shards[i].server = *server;
  }
  made->resize(shards.size());
  Progress progress("shards", shards.size(), clock);
  constexpr std::chrono::milliseconds kLongestPause{500};
  std::size_t done = 0;
  Outcome failure;  // of the first that failed; it comes when no server works for this backup any more
  for (std::chrono::milliseconds pause{5};; pause = std::min(2 * pause, kLongestPause)) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].is_done) continue;
      const absl::StatusOr<BackupProgress> told = shards[i].server->Backup(shards[i].name);
      if (absl::IsAlreadyExists(told.status()) && waits && !Failed(failure)) {
        shards[i].name = RandomId();  // the server remembers the outcome of the name
        if (std::exchange(shards[i].waits, true)) continue;
        progress.Hide();
        command_line::SayError(absl::StrCat("kvctl: backup: ", NameShard(places[i], told.status()).message(),
                                            "; waiting until it is done"));
        continue;
      }
      if (told.ok() && !told->done) continue;
      shards[i].is_done = true;
      ++done;
      if (!told.ok()) {
        if (!Failed(failure)) failure = FailedBackup(NameShard(places[i], told.status()));
        continue;
      }
      (*made)[i] = {.id = static_cast<std::uint32_t>(told->id),
                    .unix_s = 0,
                    .version = told->version,
                    .bytes = told->bytes,
                    .new_bytes = told->new_bytes};
    }
    if (done == shards.size()) return failure;
    progress.Show(done);
    std::this_thread::sleep_for(pause);
  }
}

Outcome Backup(ClusterClient& client, const Arguments& arguments, const Clock& clock) {
  if (!arguments.topology_file.empty()) return BackUpSet(client, arguments, clock);
  std::vector<BackupInfo> made;
  Outcome outcome = BackUpAll(client, /*waits=*/false, clock, &made);
  return Failed(outcome) ? outcome : ShowMade(made.front());
}

Outcome Backups(const Arguments& arguments) {
  if (HasSets(arguments)) return ListBackupSets(arguments);
  const auto infos = ListBackups(arguments.from);
  if (!infos.ok()) return WithoutSet(arguments, FromOffline(infos.status()));
  std::string lines;
  for (const BackupInfo& info : *infos) {
    absl::StrAppendFormat(&lines, "%d\t%s\t%d\t%d\t%d\n", info.id, TimeOfBackup(info.unix_s), info.version,
                          info.bytes, info.new_bytes);
  }
  return WriteOutput(lines);
}

namespace {

/// Returns the failure of a command of one backup, and what to do if the directory lacks that.
Outcome WithoutBackup(const Arguments& arguments, const absl::Status& status) {
  Outcome failure = FromOffline(status);
  if (absl::IsNotFound(status) && ListBackups(arguments.from).ok()) {
    failure.error +=
        arguments.id == 0 ? "; make one with kvctl backup" : "; kvctl backups lists those there are";
  }
  return WithoutSet(arguments, std::move(failure));
}

}  // namespace

Outcome Restore(const Arguments& arguments, const Clock& clock) {
  if (HasSets(arguments) || arguments.topology) return RestoreSet(arguments, clock);
  const auto info = RestoreBackup(arguments.from, arguments.id, arguments.to, clock.UnixMillis() / 1000);
  if (!info.ok()) return WithoutBackup(arguments, info.status());
  return WriteOutput(BackupLines(*info), absl::StrFormat("backup %d is restored", info->id));
}

Outcome Check(const Arguments& arguments, const Clock& clock) {
  if (HasSets(arguments) || arguments.topology) return CheckSet(arguments, clock);
  if (!arguments.from.empty()) {
    const auto info = VerifyBackup(arguments.from, arguments.id);
    return info.ok() ? WriteOutput(BackupLines(*info)) : WithoutBackup(arguments, info.status());
  }
  const auto report = CheckData(arguments.data_dir, clock.UnixMillis());
  if (!report.ok()) return FromOffline(report.status());
  Outcome outcome = WriteOutput(absl::StrFormat(
      "keys %d\nbytes %d\nexpiring %d\nexpired %d\nclients %d\nlast_version %d\n", report->keys,
      report->bytes, report->expiring, report->expired, report->clients, report->last_version));
  if (!Failed(outcome) && report->log_is_torn) {
    outcome = {
        kExitTorn,
        "the log ends torn, as when the machine fails: a server starts, and drops what is behind that, "
        "none of which was synced; it is not counted here"};
  }
  return outcome;
}

}  // namespace remora::kvctl
