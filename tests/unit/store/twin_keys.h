// Two keys that the index cannot tell apart while both are cold.
#pragma once

#include <string>

namespace remora {

/// Keys whose hashes agree in all bits that a cold slot has (EncodeColdSlot).
inline const std::string kFirstTwin = "twin 115001517";
inline const std::string kSecondTwin = "twin 167544769";

/// Two such keys with different slots of a cluster, by their tags.
inline const std::string kTaggedTwin = "{a} 53609649";
inline const std::string kOtherTaggedTwin = "{b} 67673526";

}  // namespace remora
