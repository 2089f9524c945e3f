// PUT of a value that does not go through the slice (store/format/wire/messages.h): reserve room, fill it,
// commit.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "client/session/session.h"
#include "store/format/types/write_options.h"

namespace remora {

/// As Put, for values of more than kMaxSmallValueSize. Unless it is in registered memory, the value passes
/// through the session's own buffer in pieces: nothing is allocated or registered for it, and its bytes need
/// not be memory that can be.
absl::Status PutLarge(Session& session, std::string_view key, const SentValue& value,
                      const PutOptions& options);

}  // namespace remora
