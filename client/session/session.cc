#include "client/session/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/address_choice.h"
#include "client/session/credentials.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

/// Returns the size of the cache of locations. With a mirror it would only repeat the mirror's places,
/// without the changes by which the mirror stays fresh.
std::size_t LocationCacheBytesOf(const ClientOptions& options) {
  const std::size_t usual = options.index_mirror_bytes > 0 ? 0 : kDefaultLocationCacheBytes;
  return options.location_cache_bytes.value_or(usual);
}

absl::Status CheckMemory(const ReadCache& cache, const ClientOptions& options) {
  if (!cache.locations().lacks_memory()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("location_cache_bytes: there is no memory for a location cache of ",
                   LocationCacheBytesOf(options), " bytes; make it smaller"));
}

absl::Status CheckMemory(const IndexMirror* mirror, const ClientOptions& options) {
  if (mirror == nullptr || !mirror->frames().lacks_memory()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("index_mirror_bytes: there is no memory for a mirror of ",
                                                   options.index_mirror_bytes, " bytes; make it smaller"));
}

}  // namespace

ClientOptions ResolvedFor(const rdma::Address& address, ClientOptions options) {
  // Through mapped memory a READ is a copy: a look-up of the location costs about what it saves (decision
  // 0035).
  if (address.kind == rdma::TransportKind::kLocal && !options.location_cache_bytes) {
    options.location_cache_bytes = 0;
  }
  return options;
}

absl::StatusOr<Dialer> DialerFor(const rdma::Address& address, const ClientOptions& options,
                                 const Clock& clock) {
  rdma::ClientTls tls{.files = options.tls, .secret = {}};
  REMORA_ASSIGN_OR_RETURN(tls.secret, SecretOfToken(options.token));
  return AddressDialer{address, std::move(tls), &clock};
}

Session::Session(Dialer dialer, std::string secret, const ClientOptions& options, const Clock& clock)
    : clock_(clock),
      connector_(std::move(dialer), std::move(secret), options, clock),
      statistics_(options.metrics),
      server_(clock),
      mirror_bytes_(options.index_mirror_bytes),
      cache_(LocationCacheBytesOf(options)),
      remembers_(cache_.locations().is_on() || mirror_bytes_ > 0),
      region_(buffers_, server_, statistics_.counters()),
      channel_(buffers_, server_, cache_, hints_, statistics_.counters(), reconnects()),
      lease_(clock, server_, region_),
      scan_window_(options.scan_window_bytes),
      endpoint_(in_use_, buffers_, scan_window_, region_, channel_),
      calls_({.endpoint = endpoint_,
              .buffers = buffers_,
              .region = region_,
              .channel = channel_,
              .scan_window = scan_window_,
              .hints = hints_,
              .counters = statistics_.counters()},
             clock, options.timeout) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Start(std::unique_ptr<rdma::ClientConnection> connection,
                                                        Dialer dialer, const ClientOptions& options,
                                                        const Clock& clock) {
  const std::size_t cache = options.location_cache_bytes.value_or(0);
  if (cache > kMaxLocationCacheBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("location_cache_bytes: ", cache, " bytes; the most is ", kMaxLocationCacheBytes));
  }
  if (options.index_mirror_bytes > kMaxIndexMirrorBytes) {
    return absl::InvalidArgumentError(absl::StrCat("index_mirror_bytes: ", options.index_mirror_bytes,
                                                   " bytes; the most is ", kMaxIndexMirrorBytes));
  }
  REMORA_ASSIGN_OR_RETURN(std::string secret, SecretOfToken(options.token));
  std::unique_ptr<Session> session(new Session(std::move(dialer), std::move(secret), options, clock));
  REMORA_RETURN_IF_ERROR(CheckMemory(session->cache_, options));
  REMORA_RETURN_IF_ERROR(session->OpenFirst(std::move(connection), clock.Now() + options.connect_timeout));
  REMORA_RETURN_IF_ERROR(CheckMemory(session->mirror(), options));
  session->counters() = {};
  REMORA_RETURN_IF_ERROR(session->BuildMirror());
  return session;
}

void Session::Learn(std::uint64_t key_hash, const Slot& slot, MirrorFrames::Same same,
                    SegmentGenerations::Number refreshes) {
  cache_.Learn(key_hash, slot, refreshes);
  if (mirror_ == nullptr || !SlotNamesPlace(slot, server_.shape().memory_size)) return;
  mirror_->Add(server_.index().HomeOf(key_hash).bucket, EncodeSlot(slot), same, refreshes);
}

absl::Status Session::BeginOnce() {
  REMORA_RETURN_IF_ERROR(BeginCall());
  return calls_.TakeEvents();
}

}  // namespace remora
