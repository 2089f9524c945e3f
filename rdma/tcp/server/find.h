// The part of a FIND that the server's end does: the step from a bucket to a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace remora::rdma {

/// Returns the bytes of the record that the first slot with `fingerprint` names, in the bucket at
/// `region`[offset]. Slots of cold keys do not count. Empty: there is no such slot, or it names no place
/// inside the region, or the record is longer than `most` bytes. The store may write the bucket meanwhile.
/// REQUIRES: `offset` is a multiple of a bucket's size, and the bucket is inside the region.
std::span<std::byte> FindRecord(std::span<std::byte> region, std::uint64_t offset, std::uint32_t fingerprint,
                                std::uint32_t most);

}  // namespace remora::rdma
