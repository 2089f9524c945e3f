// Which sanitizers this is built with: constants for tests that one of them stands in the way of, or makes
// slow.
#pragma once

namespace remora {

#if defined(__has_feature)
#define REMORA_HAS_SANITIZER(name) __has_feature(name)
#else
#define REMORA_HAS_SANITIZER(name) 0
#endif

inline constexpr bool kAddressSanitizer = REMORA_HAS_SANITIZER(address_sanitizer);
inline constexpr bool kUndefinedBehaviorSanitizer = REMORA_HAS_SANITIZER(undefined_behavior_sanitizer);
inline constexpr bool kThreadSanitizer = REMORA_HAS_SANITIZER(thread_sanitizer);

#undef REMORA_HAS_SANITIZER

/// Returns how often a test repeats its steps: a fifth of `rounds` in a build with a sanitizer, which takes
/// several times as long for each.
constexpr int Rounds(int rounds) { return kAddressSanitizer || kThreadSanitizer ? (rounds + 4) / 5 : rounds; }

}  // namespace remora
