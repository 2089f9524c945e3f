// The bare requests that a client's paths are made of, posted between its calls on its own connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/adaptive_poll.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/memory/key_search.h"
#include "store/format/wire/messages.h"

namespace remora::bench {

/// Places that a GET of a key READs.
struct Place {
  std::uint64_t bucket_offset = 0;  // in the region
  std::uint64_t record_offset = 0;  // in the region
  std::uint32_t record_size = 0;    // the whole extent
};

/// Makes single READs and WRITEs over the connection of a client.
///
/// Thread safety: none. While one of its calls runs, nothing of the client's may be in flight, not even the
/// completion of a SEND.
class RawPath {
 public:
  /// Over a client's connection, which with `clock` must outlive this.
  static absl::StatusOr<std::unique_ptr<RawPath>> Create(rdma::ClientConnection& connection,
                                                         const Clock& clock);

  /// Finds a key by READs, as a GET begins: the first slot that shows its fingerprint, and that slot's
  /// bucket. NotFound.
  absl::StatusOr<Place> Find(std::string_view key);

  /// Where a key's chain begins, whether it is there or not; names no record.
  Place MainBucketOf(std::string_view key) const;

  absl::Status ReadBucket(const Place& place);
  absl::Status ReadRecord(const Place& place);
  /// READs records, all of them in flight at once. REQUIRES: there are at most SessionBuffers::kMaxBatch, and
  /// together they have at most 64 KiB.
  absl::Status ReadRecords(std::span<const Place> places);

  /// WRITEs key and value to this connection's staging buffer, as a PUT does. The bytes are in flight until
  /// the completion of the next SEND.
  absl::Status Write(std::string_view key, std::string_view value);

 private:
  RawPath(rdma::ClientConnection& connection, const Clock& clock);
  absl::Status Read(std::uint64_t offset, std::size_t size);
  absl::Status AwaitRead();
  std::uint64_t MainOffset(std::uint64_t number) const;

  rdma::ClientConnection& connection_;
  rdma::AdaptivePoller spinner_;
  const Clock& clock_;
  HelloReply hello_;
  StoreShape shape_;
  IndexView view_;
  std::vector<std::uint64_t> directory_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<rdma::Registration> registration_;
};

}  // namespace remora::bench
