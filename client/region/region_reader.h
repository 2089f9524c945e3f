// READs of the memory that the server exposes, and the knowledge of where its buckets are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/counters.h"
#include "client/region/session_buffers.h"
#include "client/session/server_view.h"
#include "rdma/local/mapped_region.h"
#include "rdma/transport.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"

namespace remora {

/// Posts READs and counts them; it does not wait. It must not read between Unbind and the next Bind.
///
/// Thread safety: none. Ownership: the three objects passed to the constructor outlive it, as does the
/// connection until Unbind.
class RegionReader {
 public:
  RegionReader(const SessionBuffers& buffers, const ServerView& server, ClientCounters& counters)
      : buffers_(buffers), server_(server), counters_(counters) {}

  /// Reads over this connection from now on. REQUIRES: ServerView has its hello.
  void Bind(rdma::ClientConnection& connection) {
    connection_ = &connection;
    mapped_ = connection.Mapped(server_.memory());
  }
  /// Stops using the connection, because it ends. No READ is in flight then.
  void Unbind() {
    connection_ = nullptr;
    mapped_ = nullptr;
    in_flight_ = 0;
  }
  void Forget() {
    bucket_offsets_.clear();
    bucket_segments_.clear();
  }

  // --- Through a mapping, where a READ is a copy

  /// Returns whether READs are usually copies from a mapping.
  bool reads_now() const { return mapped_ != nullptr; }
  /// Reads from the mapping. Returns false if it could not, so that the caller has to post a READ.
  bool ReadNow(std::span<std::byte> to, std::uint64_t offset) {
    const bool done = mapped_ != nullptr && mapped_->Read(to, offset);
    counters_.reads += done ? 1 : 0;
    return done;
  }
  /// Returns the bytes in the mapping. ServerIsAlive returns whether bytes that were seen there count
  /// (MappedRegion). Neither counts as a READ. REQUIRES: reads_now.
  const std::byte* At(std::uint64_t offset, std::size_t size) const { return mapped_->At(offset, size); }
  [[gnu::always_inline]] bool ServerIsAlive() { return mapped_->ServerIsAlive(); }
  /// Returns the server's count of reused memory. Bytes that were seen between two equal counts are valid,
  /// whatever the time (layout.h, I6). REQUIRES: reads_now.
  std::uint64_t ReuseEpoch() const { return mapped_->Word(offsetof(Superblock, reuse_epoch)); }
  /// Returns the same count as ReuseEpoch. REQUIRES: At has returned an address, with no call since that may
  /// end the connection.
  std::uint64_t ReuseEpochInside() const { return mapped_->WordInside(offsetof(Superblock, reuse_epoch)); }
  /// Returns the word that proves a miss (KnownSlots). It was loaded behind all bytes that were read before.
  /// REQUIRES: reads_now.
  std::uint64_t SlotsWord() const { return mapped_->Word(offsetof(Superblock, slots_word)); }
  /// Prefetches bytes that the caller may read next.
  void Prefetch(std::uint64_t offset, std::size_t size) const {
    if (mapped_ != nullptr) mapped_->Prefetch(offset, std::min(size, kPrefetched));
  }

  // --- Posted

  /// Posts a READ whose completion has this context, and is the caller's to take.
  absl::Status Post(std::uint64_t context, std::span<const rdma::Sge> to, std::uint64_t offset) {
    const absl::Status posted = connection_->PostReadv(context, to, server_.memory(), offset);
    counters_.reads += posted.ok() ? 1 : 0;
    return posted;
  }
  /// Posts a READ that is complete when is_idle. REQUIRES: fewer than SessionBuffers::kMaxBatch such READs
  /// are in flight.
  absl::Status Post(std::span<const rdma::Sge> to, std::uint64_t offset);
  /// Returns whether a bucket and a record can come in one round trip (FIND).
  bool finds() const { return mapped_ == nullptr && connection_->finds(); }
  /// Posts a FIND in place of the READ of a bucket, as the first Post.
  absl::Status PostFind(std::uint64_t context, const rdma::Sge& bucket, const rdma::Sge& record,
                        std::uint64_t offset, std::uint64_t key_hash, rdma::FoundRecord* found) {
    const absl::Status posted = connection_->PostFind(context, bucket, record, server_.memory(), offset,
                                                      Fingerprint(key_hash), found);
    counters_.reads += posted.ok() ? 1 : 0;
    return posted;
  }
  /// Posts a FIND that is complete when is_idle; *found is its record then. It outlives the connection's use
  /// of it. Null: found() is the record. REQUIRES: no other FIND that is found() is in flight.
  absl::Status PostFind(const rdma::Sge& bucket, const rdma::Sge& record, std::uint64_t offset,
                        std::uint64_t key_hash, rdma::FoundRecord* found = nullptr);
  const rdma::FoundRecord& found() const { return found_; }
  /// Posts a READ whose data is not used: when it completes, so have the WRITEs before it.
  absl::Status PostFence();
  /// Takes the completion of a READ that is_idle covers.
  void TakeCompletion() { --in_flight_; }
  bool is_idle() const { return in_flight_ == 0; }

  // --- The directory

  /// Returns a bucket's offset in the region. 0: the client has to READ the directory first.
  std::uint64_t KnownOffsetOf(const BucketRef& bucket) const {
    if (bucket.overflow) return bucket.number * sizeof(Bucket);
    const std::uint64_t index = bucket.number / kBucketsPerSegment;
    if (index >= bucket_offsets_.size() || bucket_offsets_[index] == 0) return 0;
    return bucket_offsets_[index] + bucket.number % kBucketsPerSegment * sizeof(Bucket);
  }
  /// Returns the number of the main bucket at a place, counted in buckets. Nothing: the client knows of none
  /// there.
  std::optional<std::uint64_t> MainBucketAt(std::uint64_t place) const {
    const std::uint64_t segment = place / kBucketsPerSegment;
    if (segment >= bucket_segments_.size() || bucket_segments_[segment] == kNoBuckets) return std::nullopt;
    return bucket_segments_[segment] * std::uint64_t{kBucketsPerSegment} + place % kBucketsPerSegment;
  }
  struct DirectoryRange {
    std::uint64_t first = 0;  // entry
    std::uint64_t offset = 0;
    std::size_t size = 0;  // 0: the index cannot be that large
  };
  /// Returns the range of directory entries around a bucket's. REQUIRES: it is a main bucket whose offset is
  /// unknown.
  DirectoryRange DirectoryAround(const BucketRef& bucket) const;
  void TakeDirectory(const DirectoryRange& range, std::span<const std::byte> bytes);

 private:
  // The number of bytes at the start of a record that are worth prefetching before the copy. The CPU
  // itself prefetches the following ones.
  static constexpr std::size_t kPrefetched = 1024;

  static constexpr std::uint32_t kNoBuckets = ~std::uint32_t{0};

  const SessionBuffers& buffers_;
  const ServerView& server_;
  ClientCounters& counters_;
  rdma::ClientConnection* connection_ = nullptr;
  rdma::MappedRegion* mapped_ = nullptr;        // the connection's mapping; null: it has none
  std::vector<std::uint64_t> bucket_offsets_;   // of each segment's first main bucket; 0: not known
  std::vector<std::uint32_t> bucket_segments_;  // entry of the directory, by the segment that it names
  std::size_t in_flight_ = 0;
  rdma::FoundRecord found_;  // here, as a caller may give up while it is in flight
};

}  // namespace remora
