// Two keys that the index cannot tell apart while both are cold.
#pragma once

#include <string>

namespace remora {

/// Keys whose hashes agree in all bits that a cold slot has (EncodeColdSlot).
inline const std::string kFirstTwin = "twin 115001517";
inline const std::string kSecondTwin = "twin 167544769";

}  // namespace remora
