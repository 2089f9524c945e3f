// Order that ThreadSanitizer cannot see, because time makes it. Nothing in other builds.
#pragma once

// gcc says it in one way, clang in another.
#ifdef __SANITIZE_THREAD__
#define REMORA_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define REMORA_TSAN
#endif
#endif

#ifdef REMORA_TSAN
extern "C" void __tsan_release(void* address);
extern "C" void __tsan_acquire(void* address);
#endif

namespace remora {

/// All that this thread did so far comes before what a thread does after TimeHasPassed with the same object.
inline void WithinTime([[maybe_unused]] const void* object) {
#ifdef REMORA_TSAN
  __tsan_release(const_cast<void*>(object));
#endif
}

inline void TimeHasPassed([[maybe_unused]] const void* object) {
#ifdef REMORA_TSAN
  __tsan_acquire(const_cast<void*>(object));
#endif
}

}  // namespace remora
