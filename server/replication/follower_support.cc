#include "server/replication/follower_support.h"

#include <algorithm>

namespace remora {

void FollowerSupport::NoteAnswer(TimePoint now) { last_ = std::max(last_, now); }

}  // namespace remora
