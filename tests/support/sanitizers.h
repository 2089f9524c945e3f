// Which sanitizers this is built with: constants, for tests that one of them stands in the way of.
#pragma once

namespace remora {

#if defined(__has_feature)
#define REMORA_HAS_SANITIZER(name) __has_feature(name)
#else
#define REMORA_HAS_SANITIZER(name) 0
#endif

inline constexpr bool kAddressSanitizer = REMORA_HAS_SANITIZER(address_sanitizer);
inline constexpr bool kUndefinedBehaviorSanitizer = REMORA_HAS_SANITIZER(undefined_behavior_sanitizer);

#undef REMORA_HAS_SANITIZER

}  // namespace remora
