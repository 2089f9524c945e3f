// The part of a FIND that the server's end does: from a bucket to a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace remora::rdma {

/// Returns the bytes of the record which the first slot with `fingerprint` names, in the bucket at
/// `region`[offset]. Empty: there is no such slot; it names no place inside the region; the record is longer
/// than `most`. The store may be writing the bucket meanwhile. REQUIRES: a bucket fits there, at a multiple
/// of its size.
std::span<std::byte> FindRecord(std::span<std::byte> region, std::uint64_t offset, std::uint32_t fingerprint,
                                std::uint32_t most);

}  // namespace remora::rdma
