// backup, backups, restore and check.
#include "store/backup.h"

#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "store/base/clock.h"
#include "store/base/shortage.h"
#include "store/durable/data_check.h"
#include "store/durable/data_dir.h"
#include "store/durable/tier.h"
#include "store/durable/tier_log/tier_log_options.h"
#include "store/durable/wal/wal_archive.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {
namespace {

/// Outcome of an operation that runs here, and not on a server.
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

std::string BackupLines(std::uint64_t id, std::uint64_t version, std::uint64_t bytes,
                        std::uint64_t new_bytes) {
  return absl::StrFormat("id %d\nversion %d\nbytes %d\nnew_bytes %d\n", id, version, bytes, new_bytes);
}

std::string BackupLines(const BackupInfo& info) {
  return BackupLines(info.id, info.version, info.bytes, info.new_bytes);
}

Outcome ShowMade(const std::string& lines, std::uint64_t id) {
  return WriteOutput(lines, absl::StrFormat("the backup is made, and has the number %d", id));
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

Outcome BackupOffline(const Arguments& arguments) {
  const absl::StatusOr<BackupInfo> info = BackUpStopped(arguments);
  return info.ok() ? ShowMade(BackupLines(*info), info->id) : FromOffline(info.status());
}

Outcome Backup(Client& client) {
  std::random_device device;
  std::uint64_t name = 0;
  while (name == 0) name = std::uint64_t{device()} << 32 | device();
  constexpr std::chrono::milliseconds kLongestPause{500};
  for (std::chrono::milliseconds pause{5};; pause = std::min(2 * pause, kLongestPause)) {
    const absl::StatusOr<BackupProgress> progress = client.Backup(name);
    if (absl::IsAlreadyExists(progress.status())) {
      return {EX_TEMPFAIL, std::string(progress.status().message())};
    }
    if (!progress.ok()) {
      Outcome outcome = FromAnswer(progress.status());
      if (absl::IsNotFound(progress.status())) outcome.exit_code = EX_UNAVAILABLE;
      return outcome;
    }
    if (progress->done) {
      return ShowMade(BackupLines(progress->id, progress->version, progress->bytes, progress->new_bytes),
                      progress->id);
    }
    std::this_thread::sleep_for(pause);
  }
}

Outcome Backups(const Arguments& arguments) {
  const auto infos = ListBackups(arguments.from);
  if (!infos.ok()) return FromOffline(infos.status());
  std::string lines;
  for (const BackupInfo& info : *infos) {
    const std::string made =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(info.unix_s), absl::UTCTimeZone());
    absl::StrAppendFormat(&lines, "%d\t%s\t%d\t%d\t%d\n", info.id, made, info.version, info.bytes,
                          info.new_bytes);
  }
  return WriteOutput(lines);
}

Outcome Restore(const Arguments& arguments, const Clock& clock) {
  const auto info = RestoreBackup(arguments.from, arguments.id, arguments.to, clock.UnixMillis() / 1000);
  if (!info.ok()) return FromOffline(info.status());
  return WriteOutput(BackupLines(*info), absl::StrFormat("backup %d is restored", info->id));
}

Outcome Check(const Arguments& arguments, const Clock& clock) {
  if (!arguments.from.empty()) {
    const auto info = VerifyBackup(arguments.from, arguments.id);
    return info.ok() ? WriteOutput(BackupLines(*info)) : FromOffline(info.status());
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
