// The version of Redis whose replies the gate gives, as clients ask for it.
#pragma once

#include <string_view>

namespace remora::kvgate {

inline constexpr std::string_view kRedisVersion = "7.0.0";

}  // namespace remora::kvgate
