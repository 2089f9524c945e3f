// The second process of the store's tests.
//
//   open DIR         opens a logged store and ends; the exit status is the absl::StatusCode
//   hold DIR         opens it, prints a number, and waits until it is killed
//   write DIR FROM   writes keys "key<n>" for n = FROM, FROM + 1, ..., each with the value CrashValue(n);
//                    prints n after the acknowledgement; before that, deletes every tenth key again
//   batch DIR FROM   does the same with batches n, each of which gives some keys the value of n
//
// A further argument is the size of a commit log, in bytes.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "crash_values.h"
#include "store/server_store.h"

namespace {

bool Print(std::uint64_t number) {
  return write(STDOUT_FILENO, &number, sizeof(number)) == static_cast<ssize_t>(sizeof(number));
}

int WriteUntilKilled(remora::ServerStore& store, std::uint64_t number) {
  for (;; ++number) {
    const std::string key = remora::CrashKey(number);
    if (!store.Put(key, remora::CrashValue(number)).ok()) return 101;
    if (remora::CrashKeyIsDeleted(number) && !store.Delete(key).ok()) return 102;
    if (!Print(number)) return 103;
  }
}

int ApplyUntilKilled(remora::ServerStore& store, std::uint64_t number) {
  for (;; ++number) {
    remora::WriteBatch batch;
    for (std::uint64_t key = 0; key < remora::kCrashBatchKeys; ++key) {
      batch.Put(remora::CrashKey(key), remora::CrashValue(number));
    }
    if (!store.Apply(batch).ok()) return 104;
    if (!Print(number)) return 103;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 100;
  const std::string command = argv[1];
  remora::StoreOptions options;
  options.durability = remora::Durability::kLogged;
  options.data_dir = argv[2];
  if (argc > 4) options.commit_log_bytes = std::strtoull(argv[4], nullptr, 10);
  absl::StatusOr<std::unique_ptr<remora::ServerStore>> store = remora::ServerStore::Open(options);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return static_cast<int>(store.status().code());
  }
  if (command == "open") return 0;
  if (command == "hold") {
    if (!Print(1)) return 103;
    for (;;) pause();
  }
  if (command == "write" && argc >= 4) return WriteUntilKilled(**store, std::strtoull(argv[3], nullptr, 10));
  if (command == "batch" && argc >= 4) return ApplyUntilKilled(**store, std::strtoull(argv[3], nullptr, 10));
  return 100;
}
