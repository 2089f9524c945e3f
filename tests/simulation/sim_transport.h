// A simulated transport for tests: real clients and a real server in one thread, under a virtual clock and a
// seed. Its READs are the adversary that the contract (rdma/transport.h, O3) allows and that hardware is too
// polite to be. They are delivered piece by piece in random order, and anything may happen between two
// pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora {

class SimClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  std::int64_t UnixMillis() const override {
    return std::chrono::floor<std::chrono::milliseconds>(now_.time_since_epoch()).count() + unix_epoch_ms_;
  }
  void Sleep(Duration duration) const override { now_ += duration; }
  void Advance(Duration duration) { now_ += duration; }
  void SetUnixMillis(std::int64_t unix_ms) { unix_epoch_ms_ += unix_ms - UnixMillis(); }

 private:
  mutable TimePoint now_{std::chrono::seconds(1000)};
  std::int64_t unix_epoch_ms_ = 1'600'000'000'000;
};

class SimListener;
class SimConnection;

/// The simulated network: clients connect to one server, and share its clock and seed.
///
/// Thread safety: none, for the network, its clients and its server together. Must outlive them.
class SimNetwork {
 public:
  explicit SimNetwork(std::uint64_t seed);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  /// Does some of the server's work; called whenever a client waits.
  void set_step(std::function<void()> step) { step_ = std::move(step); }

  /// Called between two pieces of a READ, every `gap` pieces on average; may run the server and other
  /// clients, but not the client that reads. Not called again while it runs.
  void set_interference(std::function<void()> interference, std::uint32_t gap) {
    interference_ = std::move(interference);
    interference_gap_ = gap;
  }

  /// Instead of both: clients are fibers. Called whenever one waits, and between two pieces of a READ, every
  /// `gap` pieces on average; anything may happen before it returns, the end of this connection, too.
  void set_yield(std::function<void()> yield, std::uint32_t gap) {
    yield_ = std::move(yield);
    interference_gap_ = gap;
  }

  /// Bytes of a piece: 1 tears even words, 8 keeps aligned words whole.
  void set_piece_size(std::size_t size) { piece_size_ = size; }

  /// Lets servers grant WRITE of their memory, as verbs can and mappings cannot.
  void set_grants(bool grants) { grants_ = grants; }

  /// Fate of a connection that is cut, at the server's end. A client's always learns it at once.
  enum class Cut {
    kBoth,    // it learns it at once, and messages that were in flight to it are lost
    kClient,  // messages in flight to it come later, at its kLate-th Poll; it learns it kRetries after it
              // sent
  };
  static constexpr int kLate = 40;
  static constexpr std::chrono::seconds kRetries{2};
  /// Cuts all connections at the `event`-th event from now on (1: the next). An event: a READ, WRITE or
  /// message is posted, was posted, comes, or a client asks for a connection, or was accepted. Then calls
  /// `then`.
  void CutAt(std::uint64_t event, Cut cut, std::function<void()> then = {}) {
    cut_in_ = event;
    cut_ = cut;
    then_ = std::move(then);
  }
  /// Returns true if that is still to come.
  bool is_cut_due() const { return cut_in_ > 0; }
  /// Cuts one connection that is open, the `number`-th modulo how many there are. False: there is none.
  bool CutOne(std::uint64_t number, Cut cut);

  /// There is one listener at a time.
  std::unique_ptr<rdma::Listener> Listen();
  /// Unavailable from Connect when there is no listener by then.
  std::unique_ptr<rdma::ClientConnection> Dial();

  const SimClock& clock() const { return clock_; }
  /// Lets time pass, for everybody.
  void Advance(Duration duration) { clock_.Advance(duration); }
  SimClock& clock() { return clock_; }
  std::mt19937_64& random() { return random_; }
  std::uint64_t pieces_delivered() const { return pieces_delivered_; }
  /// Readable for ever.
  int wait_fd() const { return wait_fd_; }

 private:
  friend class SimConnection;
  friend class SimListener;
  static constexpr std::size_t kMaxPieces = 1024;  // of a READ of a fiber

  /// False: the connection ended meanwhile.
  bool Deliver(const absl::Status& connection, const std::byte* from, std::byte* to, std::size_t size);
  void Interfere();
  void Step();
  void Event();

  SimClock clock_;
  std::mt19937_64 random_;
  const int wait_fd_;
  std::function<void()> step_;
  std::function<void()> interference_;
  std::function<void()> yield_;
  std::uint32_t interference_gap_ = 1;
  std::size_t piece_size_ = 1;
  bool grants_ = true;
  bool in_step_ = false;
  bool in_interference_ = false;
  std::uint64_t pieces_delivered_ = 0;
  SimListener* listener_ = nullptr;
  std::vector<SimConnection*> connections_;  // all ends
  std::uint64_t cut_in_ = 0;
  Cut cut_ = Cut::kBoth;
  std::function<void()> then_;
};

}  // namespace remora
