// READs of the memory that the server exposes, and the knowledge of where its buckets are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/counters.h"
#include "client/region/session_buffers.h"
#include "client/session/server_view.h"
#include "rdma/local/mapped_region.h"
#include "rdma/transport.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"

namespace remora {

/// Posts READs and counts them; it does not wait. Between Forget and the next Bind nothing may be read.
///
/// Thread safety: none. Ownership: the three that it is made with, and the connection until Forget, outlive
/// it.
class RegionReader {
 public:
  RegionReader(const SessionBuffers& buffers, const ServerView& server, ClientCounters& counters)
      : buffers_(buffers), server_(server), counters_(counters) {}

  /// Reads over this connection from now on. REQUIRES: ServerView has its hello.
  void Bind(rdma::ClientConnection& connection) {
    connection_ = &connection;
    mapped_ = connection.Mapped(server_.memory());
  }
  /// The connection ends: nothing is in flight.
  void Unbind() {
    connection_ = nullptr;
    mapped_ = nullptr;
    in_flight_ = 0;
  }
  void Forget() { bucket_offsets_.clear(); }

  // --- Through a mapping, where a READ is a copy

  /// Whether READs are copies, but now and then.
  bool reads_now() const { return mapped_ != nullptr; }
  /// True: the READ is done. False: it is to be posted.
  bool ReadNow(std::span<std::byte> to, std::uint64_t offset) {
    const bool done = mapped_ != nullptr && mapped_->Read(to, offset);
    counters_.reads += done ? 1 : 0;
    return done;
  }
  /// The bytes where they are, and whether what was seen of them counts (MappedRegion). Not counted as READs.
  /// REQUIRES: reads_now.
  const std::byte* At(std::uint64_t offset, std::size_t size) const { return mapped_->At(offset, size); }
  [[gnu::always_inline]] bool ServerIsAlive() { return mapped_->ServerIsAlive(); }
  /// What was seen between two looks at this that told the same, is to be trusted whatever the time
  /// (layout.h, I6). REQUIRES: reads_now.
  std::uint64_t Reuses() const { return mapped_->Word(offsetof(Superblock, reuses)); }
  /// The same, behind an At that told where something is, with no call between that may end the connection.
  std::uint64_t ReusesStill() const { return mapped_->WordInside(offsetof(Superblock, reuses)); }
  /// A READ of this may follow.
  void Prefetch(std::uint64_t offset, std::size_t size) const {
    if (mapped_ != nullptr) mapped_->Prefetch(offset, std::min(size, kPrefetched));
  }

  // --- Posted

  /// A READ of which the caller takes the completion, which has this context.
  absl::Status Post(std::uint64_t context, std::span<const rdma::Sge> to, std::uint64_t offset) {
    const absl::Status posted = connection_->PostReadv(context, to, server_.memory(), offset);
    counters_.reads += posted.ok() ? 1 : 0;
    return posted;
  }
  /// A READ that is over when is_idle; at most SessionBuffers::kMaxBatch before that.
  absl::Status Post(std::span<const rdma::Sge> to, std::uint64_t offset);
  /// A READ of nothing of interest: when it is done, so are the WRITEs before it.
  absl::Status PostFence();
  /// One of the posted ones is complete.
  void TakeCompletion() { --in_flight_; }
  bool is_idle() const { return in_flight_ == 0; }

  // --- The directory

  /// A bucket's place in the region. 0: the directory has to be READ first.
  std::uint64_t KnownOffsetOf(const BucketRef& bucket) const {
    if (bucket.overflow) return bucket.number * sizeof(Bucket);
    const std::uint64_t index = bucket.number / kBucketsPerSegment;
    if (index >= bucket_offsets_.size() || bucket_offsets_[index] == 0) return 0;
    return bucket_offsets_[index] + bucket.number % kBucketsPerSegment * sizeof(Bucket);
  }
  struct DirectoryRange {
    std::uint64_t first = 0;  // entry
    std::uint64_t offset = 0;
    std::size_t size = 0;  // 0: the index cannot be that large
  };
  /// The entries of the directory around a bucket's. REQUIRES: it is a main bucket, whose offset is not
  /// known.
  DirectoryRange DirectoryAround(const BucketRef& bucket) const;
  void TakeDirectory(const DirectoryRange& range, std::span<const std::byte> bytes);

 private:
  // The bytes at the start of a record that are worth fetching before they are copied; what follows comes by
  // the processor's own foresight.
  static constexpr std::size_t kPrefetched = 1024;

  const SessionBuffers& buffers_;
  const ServerView& server_;
  ClientCounters& counters_;
  rdma::ClientConnection* connection_ = nullptr;
  rdma::MappedRegion* mapped_ = nullptr;       // the connection's; null: there is none
  std::vector<std::uint64_t> bucket_offsets_;  // of each segment's first main bucket; 0: not known
  std::size_t in_flight_ = 0;
};

}  // namespace remora
