// Clients that read and write as mixed as can be, whatever becomes of their server, and note all of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "history.h"

namespace remora {

struct ClientsOptions {
  std::string address;
  std::size_t writers = 6;
  std::size_t readers = 2;
  /// Few, so that they meet.
  std::size_t keys = 48;
  /// The lowest level that all crashes spare: that of the increments.
  Durability spared = Durability::kSynced;
  /// Per cent of the writes, increments aside. A fifth of all others is of the level memory.
  std::size_t synced = 50;
  std::uint64_t seed = 1;
};

class Clients {
 public:
  /// Each is a thread, with a connection that comes again. REQUIRES: a server is there.
  explicit Clients(const ClientsOptions& options);
  /// REQUIRES: Stop was called.
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  HistoryTime Tick() { return ++time_; }
  void Note(const HistoryCrash& crash) { crashes_.push_back(crash); }

  /// Ends them, reads every key a last time, and gives what they noted. REQUIRES: a server is there.
  History Stop();
  /// Answers that no server should give, in words. After Stop.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  class Client;

  const ClientsOptions options_;
  std::atomic<HistoryTime> time_{0};
  std::atomic<std::uint64_t> last_id_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::thread> threads_;
  std::vector<HistoryCrash> crashes_;
  std::vector<std::string> complaints_;
};

}  // namespace remora
