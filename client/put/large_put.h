// PUT of a value that does not pass through the staging buffer (store/format/wire/messages.h): the client
// reserves space, fills it, and commits.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "client/session/session.h"
#include "store/format/types/write_options.h"

namespace remora {

/// Puts a value of more than kMaxSmallValueSize bytes; outcomes as for Put. Unless it is in registered
/// memory, the value passes through the session's own buffer in pieces. The client allocates and registers no
/// memory for it, so its memory need not be registrable.
absl::Status PutLarge(Session& session, std::string_view key, const SentValue& value,
                      const PutOptions& options);

}  // namespace remora
