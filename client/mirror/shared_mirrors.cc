#include "client/mirror/shared_mirrors.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "store/base/hold_over_forks.h"
#include "store/base/mutex.h"

namespace remora {
namespace {

Mutex joining;

/// The mirrors by their keys. Those that have ended stay until the next one is made.
class LivingMirrors {
 public:
  static LivingMirrors& Get() {
    static auto* const mirrors = new LivingMirrors;  // never destroyed: clients may live longer
    return *mirrors;
  }

  std::shared_ptr<IndexMirror> Find(const MirrorKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(joining) {
    const auto found = living_.find(key);
    return found == living_.end() ? nullptr : found->second.lock();
  }
  void Add(const MirrorKey& key, const std::shared_ptr<IndexMirror>& mirror)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(joining) {
    std::erase_if(living_, [](const auto& entry) { return entry.second.expired(); });
    living_[key] = mirror;
  }

 private:
  std::map<MirrorKey, std::weak_ptr<IndexMirror>> living_ ABSL_GUARDED_BY(joining);
};

// H2. The mirrors exist before there are threads.
[[maybe_unused]] const int joining_waits_for_forks = [] {
  LivingMirrors::Get();
  return HoldOverForks<joining>();
}();

}  // namespace

std::shared_ptr<IndexMirror> SharedMirrors::Join(const MirrorKey& key,
                                                 std::shared_ptr<IndexMirror> previous) {
  const MutexLock lock(joining);
  if (std::shared_ptr<IndexMirror> living = LivingMirrors::Get().Find(key)) return living;
  previous.reset();
  const StoreShape shape{
      .memory_size = key.memory_size, .incarnation = key.incarnation, .base_depth = key.base_depth};
  auto mirror = std::make_shared<IndexMirror>(shape, key.grace, key.bytes);
  LivingMirrors::Get().Add(key, mirror);
  return mirror;
}

}  // namespace remora
