// Attacks that only tcp:// has: with its frames.
#pragma once

#include <vector>

#include "tests/adversarial/attacks.h"

namespace remora {

std::vector<Attack> TcpAttacks();

}  // namespace remora
