// A value in the reply to a kLocate: that of a record which is only in the durable tier, and stays there.
//
//   Reply::version  the version of the record
//   Reply::result   its expiry (store/format/types/expiry.h)
//   Reply::slot     LocatedValueChecksum
//   behind it       the value
#pragma once

#include <cstdint>
#include <string_view>

#include "store/format/memory/hash.h"
#include "store/format/memory/record.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Returns the checksum that ties a value to its key, its version, its expiry and the life of the store. It
/// is a record's, at a place where none can be.
inline std::uint64_t LocatedValueChecksum(const Reply& reply, std::uint64_t key_hash, std::string_view value,
                                          std::uint64_t incarnation) {
  RecordHeader header{};
  header.version_live = reply.version << 1;
  header.expiry_ms = static_cast<std::uint64_t>(reply.result);
  return RecordChecksum(header, key_hash, HashValue(value.data(), value.size()), 0, incarnation);
}

}  // namespace remora
