// A read of a value in place, in the server's memory, where this process maps it. Nothing is copied or
// hashed. These invariants say why the function that is shown the value saw the key's value whole:
//
//   V1 The reader loads `reuse_epoch`, then a slot, then the header to which the slot leads. The header has
//      the live bit, the slot's extent and this key. Then `reuse_epoch` is unchanged. A slot is one aligned
//      word (F1 of fast_get.h). So the header is of the record that the slot named (F2), and the record was
//      the key's at a moment h of that reading (F3). No checksum is needed to show that a slot was whole.
//   V2 The function saw the record's own bytes if it ended within T after the reader began (layout.h, I6).
//      Otherwise, it did so if one byte is the same before the header and behind the function. For a large
//      record, it is the byte of its beginning (P2 to P4 of chunked_read.h). For a small one, it is the
//      generation of its segment. That changes when all records of the segment are dead, for ever, so P2 to
//      P4 hold for it as well.
//   V3 The server was alive after all of that (A1 of rdma/local/wire.h).
//
// If a check fails, the caller copies the value by a GET, and shows the copy.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "client/session/session.h"

namespace remora {

/// Returns whether TryVisit shows the value that begins at `bytes` to this thread now.
bool IsShownInPlace(const void* bytes);

/// Shows the key's value in place. Returns:
///   true: `show` was called once, and saw the value. `version`, unless null, is that of the value.
///   false: the outcome is unknown. `show` may have been called once.
/// REQUIRES: the session is ready, and the key's size is in bounds.
bool TryVisit(Session& session, std::string_view key, absl::FunctionRef<void(std::string_view)> show,
              std::uint64_t* version);

}  // namespace remora
