// Watches of remora.h.
#include "client/watch.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/c/call.h"
#include "client/c/remora.h"
#include "client/client.h"

struct remora_watch {
  // One of these two; the other is null:
  std::unique_ptr<remora::ClientWatch> watch;
  std::unique_ptr<remora::ClusterWatch> cluster_watch;
  std::string token;
};

using namespace remora::c;  // NOLINT: every call here uses it

namespace {

// Returns the result of `call` with the watch of a server or of a cluster.
template <typename Body>
auto WithWatch(const remora_watch& watch, const Body& body) {
  return watch.cluster_watch == nullptr ? body(*watch.watch) : body(*watch.cluster_watch);
}

absl::Status BeginWatch(remora_client& client, const remora::WatchOptions& options, remora_watch& watch) {
  if (client.cluster == nullptr) {
    auto opened = client.client->Watch(options);
    if (opened.ok()) watch.watch = *std::move(opened);
    return opened.status();
  }
  auto opened = client.cluster->Watch(options);
  if (opened.ok()) watch.cluster_watch = *std::move(opened);
  return opened.status();
}

}  // namespace

static_assert(static_cast<int>(remora::ChangeKind::kPut) == REMORA_CHANGE_PUT &&
              static_cast<int>(remora::ChangeKind::kDelete) == REMORA_CHANGE_DELETE);

void remora_watch_options_init(remora_watch_options* options) {
  *options = {};
  options->struct_size = sizeof(*options);
}

remora_code remora_watch_begin(remora_client* client, const remora_watch_options* options,
                               remora_watch** watch) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(client != nullptr && watch != nullptr); !status.ok())
      return status;
    remora_watch_options taken;
    remora_watch_options_init(&taken);
    if (absl::Status status = TakeOptions(options, &taken); !status.ok()) return status;
    if (absl::Status status = CheckPointers(AreBytes(taken.prefix.data, taken.prefix.size)); !status.ok())
      return status;
    if (absl::Status status = CheckToken(taken.resume_token, "watch"); !status.ok()) return status;
    auto begun = std::make_unique<remora_watch>();
    const remora::WatchOptions wanted{
        .prefix = View(taken.prefix.data, taken.prefix.size),
        .resume_token = taken.resume_token != nullptr ? taken.resume_token : ""};
    if (absl::Status status = BeginWatch(*client, wanted, *begun); !status.ok()) return status;
    *watch = begun.release();
    return absl::OkStatus();
  });
}

remora_code remora_watch_next(remora_watch* watch, int64_t wait_ms, remora_change* change) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(watch != nullptr && change != nullptr); !status.ok())
      return status;
    constexpr milliseconds kLongest = std::chrono::hours(24 * 365);
    const milliseconds wait = wait_ms < 0 ? kLongest : std::min(milliseconds(wait_ms), kLongest);
    return WithWatch(*watch, [&](auto& shown) -> absl::Status {
      absl::StatusOr<bool> came = false;
      do {
        came = shown.Next(wait);
      } while (wait_ms < 0 && came.ok() && !*came);
      if (!came.ok()) return came.status();
      if (!*came) return absl::NotFoundError("watch: no change came in this time");
      *change = {static_cast<remora_change_kind>(shown.kind()),
                 {shown.key().data(), shown.key().size()},
                 {shown.value().data(), shown.value().size()},
                 shown.version(),
                 shown.expiry_ms(),
                 shown.sequence()};
      return absl::OkStatus();
    });
  });
}

remora_code remora_watch_resume_token(remora_watch* watch, const char** token) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(watch != nullptr && token != nullptr); !status.ok())
      return status;
    watch->token = WithWatch(*watch, [](const auto& of) { return of.resume_token(); });
    *token = watch->token.c_str();
    return absl::OkStatus();
  });
}

void remora_watch_end(remora_watch* watch) { delete watch; }
