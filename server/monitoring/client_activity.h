// Requests of each connected client, for those who watch the server (server/http/monitor.h).
//
// The server thread writes, and another thread reads at any time. Each client has a place. Its number says
// whose it is: it is 0 while the place changes hands, and no two clients ever have the same. So a reader that
// finds the same number before and after it read the other fields has those of one client.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "store/format/memory/metric_registry.h"

namespace remora {

/// A connected client, without anything that names it.
struct ClientActivity {
  std::uint64_t number = 0;                      // of its connection, counted from the server's start
  Metric transport = Metric::kConnectionsLocal;  // the metric that counts clients of its transport
  std::int64_t since_unix_ms = 0;
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;  // of the keys and values in them
};

/// The places of all connected clients, which the server writes and a monitor reads.
///
/// Thread safety: Read may be called from any thread; all else by the server's one thread.
class ClientActivities {
 public:
  /// The server's entry of one client, from Begin to End.
  class Place {
   public:
    void Count(std::uint64_t bytes) {
      Set(requests_, requests_.load(std::memory_order_relaxed) + 1);
      Set(bytes_, bytes_.load(std::memory_order_relaxed) + bytes);
    }

   private:
    friend class ClientActivities;
    template <typename T>
    static void Set(std::atomic<T>& field, T value) {
      field.store(value, std::memory_order_release);
    }

    std::atomic<std::uint64_t> number_ = 0;
    std::atomic<Metric> transport_ = Metric::kConnectionsLocal;
    std::atomic<std::int64_t> since_unix_ms_ = 0;
    std::atomic<std::uint64_t> requests_ = 0;
    std::atomic<std::uint64_t> bytes_ = 0;
  };

  /// Has places for so many clients at a time.
  explicit ClientActivities(std::size_t most) : places_(new Place[most]), count_(most) {
    free_.reserve(most);
    for (std::size_t i = most; i > 0; --i) free_.push_back(&places_[i - 1]);
  }
  ClientActivities(const ClientActivities&) = delete;
  ClientActivities& operator=(const ClientActivities&) = delete;

  /// Gives a client a place until End. REQUIRES: fewer than `most` clients have one.
  Place* Begin(Metric transport, std::int64_t unix_ms) {
    Place* const place = free_.back();
    free_.pop_back();
    Place::Set(place->transport_, transport);
    Place::Set(place->since_unix_ms_, unix_ms);
    Place::Set<std::uint64_t>(place->requests_, 0);
    Place::Set<std::uint64_t>(place->bytes_, 0);
    Place::Set(place->number_, ++last_number_);
    return place;
  }
  void End(Place* place) {
    Place::Set<std::uint64_t>(place->number_, 0);
    free_.push_back(place);
  }

  /// Returns the clients that are connected, in any order. A client that comes or goes meanwhile may be
  /// missing.
  std::vector<ClientActivity> Read() const {
    std::vector<ClientActivity> clients;
    for (std::size_t i = 0; i < count_; ++i) {
      const Place& place = places_[i];
      // Acquire, as all stores are releases: a field of a later client comes with the number 0 before it.
      const ClientActivity client{.number = place.number_.load(std::memory_order_acquire),
                                  .transport = place.transport_.load(std::memory_order_acquire),
                                  .since_unix_ms = place.since_unix_ms_.load(std::memory_order_acquire),
                                  .requests = place.requests_.load(std::memory_order_acquire),
                                  .bytes = place.bytes_.load(std::memory_order_acquire)};
      if (client.number != 0 && client.number == place.number_.load(std::memory_order_relaxed)) {
        clients.push_back(client);
      }
    }
    return clients;
  }

 private:
  const std::unique_ptr<Place[]> places_;
  const std::size_t count_;
  std::vector<Place*> free_;
  std::uint64_t last_number_ = 0;
};

}  // namespace remora
