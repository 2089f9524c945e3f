// PUT of a value that does not go through the slice (store/format/protocol.h): reserve room, fill it, commit.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "client/session.h"
#include "store/format/write_options.h"

namespace remora {

/// As Put, for values of more than kMaxSmallValueSize. The value passes through the session's own buffer in
/// pieces: nothing is allocated or registered for it, and its bytes need not be memory that can be.
absl::Status PutLarge(Session& session, std::string_view key, std::string_view value,
                      const PutOptions& options);

}  // namespace remora
