#include "rdma/local/liveness.h"

#include <utility>

#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {

absl::StatusOr<std::unique_ptr<ServerLiveness>> ServerLiveness::Create() {
  REMORA_ASSIGN_OR_RETURN(auto memory, SharedMemory::Create("remora-listener", sizeof(LocalListenerPage),
                                                            SharedMemory::Writers::kOwnerOnly));
  std::unique_ptr<ServerLiveness> self(new ServerLiveness(std::move(memory)));
  pthread_mutexattr_t attributes;
  REMORA_CHECK(pthread_mutexattr_init(&attributes) == 0);
  REMORA_CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
  REMORA_CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
  REMORA_CHECK(pthread_mutex_init(&self->page().alive, &attributes) == 0);
  pthread_mutexattr_destroy(&attributes);
  REMORA_CHECK(pthread_mutex_lock(&self->page().alive) == 0);
  return self;
}

ServerLiveness::~ServerLiveness() {
  // Fails in any other thread than the one that locked it. That must not pass: the list of robust futexes of
  // the locking thread would lead into memory that is no more.
  REMORA_CHECK(pthread_mutex_unlock(&page().alive) == 0);
  pthread_mutex_destroy(&page().alive);
}

}  // namespace remora::rdma
