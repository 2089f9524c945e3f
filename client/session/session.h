// The session of a connected client, which connects again when its connection breaks.
//
// The state for reads and messages has owners of its own, which do not wait: RegionReader (client/region),
// RequestChannel (client/rpc), ReadCache (client/cache), ServerView and ScanWindow. Endpoint is the
// connection. BlockingCalls waits, for calls that block.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cache/read_cache.h"
#include "client/counters.h"
#include "client/metrics/statistics.h"
#include "client/mirror/index_mirror.h"
#include "client/mirror/shared_mirrors.h"
#include "client/options.h"
#include "client/region/region_reader.h"
#include "client/region/session_buffers.h"
#include "client/registered_buffer.h"
#include "client/rpc/payload_stream.h"
#include "client/rpc/request_channel.h"
#include "client/session/access_hints.h"
#include "client/session/blocking_calls.h"
#include "client/session/call_guard.h"
#include "client/session/connector.h"
#include "client/session/endpoint.h"
#include "client/session/leaf_directory.h"
#include "client/session/leaf_scan_memory.h"
#include "client/session/lease_holder.h"
#include "client/session/scan_window.h"
#include "client/session/server_view.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"

namespace remora {

inline constexpr std::string_view kForgotten =
    "the connection broke, and the server does not know this client any more: it was restarted, or has "
    "forgotten "
    "it; whether the write was done is unknown";

/// Returns the options, with the defaults for this address in place of unset values.
ClientOptions ResolvedFor(const rdma::Address& address, ClientOptions options);
/// Returns the dialer of a client with these options. `clock` must outlive it. Errors as SecretOfToken.
absl::StatusOr<Dialer> DialerFor(const rdma::Address& address, const ClientOptions& options,
                                 const Clock& clock);

/// Returns the bytes of registered memory as a value.
inline std::string_view ValueIn(const RegisteredBytes& memory) {
  return {reinterpret_cast<const char*>(memory.bytes().data()), memory.bytes().size()};
}

/// A session with one server, with at most one connection at a time. Start allocates and registers all
/// memory; operations allocate none. The invariants S1 and S2 are at Endpoint, S3 is at BlockingCalls.
///
/// The class has more than 25 methods, because it makes all parts and has an accessor for each. It has no
/// other state. Its own work is to bind the parts to a connection, and to have them forget a server.
///
/// Thread safety: none.
class Session {
 public:
  /// Registers buffers, connects, checks that the server has the same format and version, and reads its
  /// superblock. `dialer` makes later connections, and the second one that an auth token requires; null: the
  /// session makes none.
  static absl::StatusOr<std::unique_ptr<Session>> Start(std::unique_ptr<rdma::ClientConnection> connection,
                                                        Dialer dialer, const ClientOptions& options,
                                                        const Clock& clock);

  // --- Calls

  /// Begins a call of the public API. Its deadline runs from the first time that it has to wait. Returns OK
  /// unless an earlier call left the connection in an unknown state, or this is a forked child's copy.
  absl::Status BeginCall() {
    calls_.deadline().Restart();
    calls_.AbandonWrite();  // S3: a write that an earlier call has given up is not one of this call
    if (is_forked()) endpoint_.Fail(absl::FailedPreconditionError(kUsedAfterFork));
    return endpoint_.status();
  }
  /// Does what BeginCall does, for a call that must not begin a second time. It also notices that the
  /// connection broke since the last one, if the transport knows it already.
  absl::Status BeginOnce();
  /// Returns whether BeginCall would return OK.
  bool is_ready() const { return endpoint_.status().ok() && !is_forked(); }
  /// Returns whether this is a forked child's copy, which must not be used. No attempt to reconnect it
  /// succeeds.
  bool is_forked() const { return in_use_.is_forked(); }

  // --- Parts

  BlockingCalls& calls() { return calls_; }
  Connector& connector() { return connector_; }
  Endpoint& endpoint() { return endpoint_; }
  LeaseHolder& lease() { return lease_; }
  ServerView& server() { return server_; }
  const ServerView& server() const { return server_; }
  const SessionBuffers& buffers() const { return buffers_; }
  RegionReader& region() { return region_; }
  const RegionReader& region() const { return region_; }
  ReadCache& cache() { return cache_; }
  const ReadCache& cache() const { return cache_; }
  /// Returns the mirror of the index; null: the client has none, or was never connected.
  IndexMirror* mirror() const { return mirror_.get(); }
  IndexMirror::User& mirror_user() { return mirror_user_; }
  /// Returns whether the client remembers where keys are, by the cache of locations or the mirror.
  bool remembers() const { return remembers_; }
  /// Remembers the location of a key, as ReadCache::Learn. REQUIRES: as for that. `same` says how the
  /// mirror treats a slot of the same fingerprint.
  void Learn(std::uint64_t key_hash, const Slot& slot, MirrorFrames::Same same,
             SegmentGenerations::Number refreshes);
  RequestChannel& channel() { return channel_; }
  const RequestChannel& channel() const { return channel_; }
  ScanWindow& scan_window() { return scan_window_; }
  /// Returns where the leaves of the server's ordered index are.
  LeafDirectory& leaves() { return leaves_; }
  /// Returns the memory that the last one-sided scan has left for the next one; null: there is none.
  std::unique_ptr<LeafScanMemory>& leaf_scan_memory() { return leaf_scan_memory_; }
  AccessHints& access_hints() { return hints_; }
  ClientCounters& counters() { return statistics_.counters(); }
  const ClientStatistics& statistics() const { return statistics_; }
  InUse& in_use() { return in_use_; }
  const Clock& clock() const { return clock_; }
  TimePoint Coarse() const { return clock_.Coarse(); }
  /// Returns a pointer that expires with the session, for objects that may outlive their client.
  std::weak_ptr<const void> life() const { return life_; }

  /// Notes a read of the key with this hash. Now and then this costs a request.
  [[gnu::always_inline]] void NoteRead(std::uint64_t key_hash) {
    if (hints_.Note(key_hash)) calls_.ReportReads();
  }

  // --- Reconnection

  bool reconnects() const { return connector_.reconnects(); }
  /// Makes another connection in place of the one that broke for `cause`, and tries until the deadline.
  /// Forgets all knowledge of the server. Outcomes:
  ///   Unknown: there is a connection, but the server cannot tell the outcome of the call's write, whose
  ///     answer was lost.
  ///   `cause`: the deadline has passed already.
  ///   Unavailable: the deadline passed during the attempts.
  ///   Any other: final, as for Start.
  absl::Status Reconnect(const absl::Status& cause, TimePoint deadline);
  /// Makes one attempt to reconnect, for a caller that does not wait in between. If its status is not OK, the
  /// failure is final (`is_final`), or another attempt may succeed after a pause. If it is OK,
  /// `was_forgotten` tells that the server does not know the earlier writes of this client.
  struct Attempt {
    absl::Status status;
    bool is_final = false;
    bool was_forgotten = false;
  };
  Attempt TryToReconnect(TimePoint deadline);
  /// Waits until the device no longer accesses any memory of a caller, or the connection has ended.
  void WaitForDevice();

 private:
  Session(Dialer dialer, std::string secret, const ClientOptions& options, const Clock& clock);

  // Defined in handshake.cc:
  absl::Status AdoptSuperblock();
  void JoinMirror();
  absl::Status ReadFirstDirectory();
  // Defined in build_mirror.cc:
  /// READs the index in bulk, if the client has a mirror. Errors are the connection's.
  absl::Status BuildMirror();
  absl::Status ReadForMirror(std::span<std::byte> to, std::uint64_t offset);
  absl::Status ReadDirectories();
  absl::Status ReadMirrorBasis(RetiredSegments* retired);
  absl::Status ReadGenerations();
  absl::Status ReadRetired(RetiredSegments* retired);
  absl::Status ReadFirstCount(const RetiredSegments& retired);
  absl::Status ReadBuckets(const IndexMirror::Buckets& claimed, const RetiredSegments& retired);
  // Defined in reconnect.cc:
  /// Connects (Connector::Connect), and uses the connection from now on. If the status is not OK, the
  /// connection is broken.
  absl::Status Open(std::unique_ptr<rdma::ClientConnection> connection, TimePoint deadline);
  /// Opens the connection of Start; with a dialer, in more than one attempt.
  absl::Status OpenFirst(std::unique_ptr<rdma::ClientConnection> connection, TimePoint deadline);
  absl::Status OpenAnother(TimePoint deadline);
  void ForgetServer();

  const Clock& clock_;
  Connector connector_;
  InUse in_use_;
  ClientStatistics statistics_;
  ServerView server_;
  const std::size_t mirror_bytes_;
  std::shared_ptr<IndexMirror> mirror_;  // null: `mirror_bytes_` is 0, or before the first connection
  IndexMirror::User mirror_user_;
  ReadCache cache_;
  const bool remembers_;
  AccessHints hints_;
  SessionBuffers buffers_;
  RegionReader region_;
  RequestChannel channel_;
  LeaseHolder lease_;
  ScanWindow scan_window_;
  LeafDirectory leaves_;
  std::unique_ptr<LeafScanMemory> leaf_scan_memory_;
  Endpoint endpoint_;
  BlockingCalls calls_;
  const std::shared_ptr<const void> life_ = std::make_shared<const char>();
};

}  // namespace remora
