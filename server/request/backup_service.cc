#include "server/request/backup_service.h"

#include <atomic>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"
#include "store/base/start_thread.h"

namespace remora {
namespace {

constexpr char kNoDirectory[] =
    "this server has no place for backups: start it with --backup_dir=DIR, or stop it and use kvctl backup "
    "--data_dir=DIR";

BackupDone DoneOf(const BackupInfo& info) { return {info.id, info.version, info.bytes, info.new_bytes}; }

}  // namespace

struct BackupService::Running {
  std::uint64_t name = 0;
  std::atomic<bool> done = false;  // released: `outcome` is there
  absl::StatusOr<BackupInfo> outcome = BackupInfo{};
  std::jthread thread;  // the first to go: stops, and is awaited
};

BackupService::BackupService(ServerStore& store, std::string dir, std::uint32_t keep, LogSink log)
    : store_(store), dir_(std::move(dir)), keep_(keep), log_(std::move(log)) {}

BackupService::~BackupService() = default;

absl::StatusOr<std::optional<BackupDone>> BackupService::Take(const Request& request) {
  if (request.condition == 0 || request.key_size != 0 || request.value_size != 0 ||
      request.payload_offset != 0) {
    return absl::InvalidArgumentError("protocol error: a backup without a name, or with a payload");
  }
  if (dir_.empty()) return absl::FailedPreconditionError(kNoDirectory);
  Collect();
  for (const Ended& ended : ended_) {
    if (ended.name != request.condition) continue;
    if (!ended.outcome.ok()) return ended.outcome.status();
    return std::optional(*ended.outcome);
  }
  if (running_ == nullptr) {
    Begin(request.condition);
  } else if (running_->name != request.condition) {
    return absl::AlreadyExistsError("backup: another one is running; try again when it is done");
  }
  return std::optional<BackupDone>();
}

void BackupService::Begin(std::uint64_t name) {
  log_(LogEvent::kBackupBegun, absl::StrCat("backup to ", dir_, ": begun"));
  running_ = std::make_unique<Running>();
  running_->name = name;
  const auto run = [this, running = running_.get(), keep = keep_](const std::stop_token& stop) {
    running->outcome = store_.Backup(dir_, keep, stop);
    running->done.store(true, std::memory_order_release);
  };
  auto thread = StartThread([&] { return std::jthread(run); });
  if (thread.ok()) {
    running_->thread = *std::move(thread);
  } else {
    running_->outcome = std::move(thread).status();
    running_->done.store(true, std::memory_order_release);
  }
}

void BackupService::Collect() {
  if (running_ == nullptr || !running_->done.load(std::memory_order_acquire)) return;
  if (running_->thread.joinable()) running_->thread.join();
  const absl::StatusOr<BackupInfo>& outcome = running_->outcome;
  Ended ended{running_->name, BackupDone{}};
  if (outcome.ok()) {
    ended.outcome = DoneOf(*outcome);
    log_(LogEvent::kBackupMade, absl::StrCat("backup to ", dir_, ": made number ", outcome->id, ", ",
                                             outcome->new_bytes, " of its ", outcome->bytes, " bytes new"));
  } else {
    // The mark of a shortage does not go over the wire, and this code does.
    ended.outcome = IsShortage(outcome.status()) ? absl::ResourceExhaustedError(outcome.status().message())
                                                 : outcome.status();
    log_(LogEvent::kBackupFailed, absl::StrCat("backup to ", dir_, ": failed: ", outcome.status().message()));
  }
  ended_.push_back(std::move(ended));
  if (ended_.size() > kRememberedBackups) ended_.pop_front();
  running_.reset();
}

}  // namespace remora
