#include "tests/simulation/sim_world.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "server/server.h"
#include "store/base/check.h"
#include "tests/simulation/fiber.h"
#include "tests/simulation/seeded_device.h"
#include "tests/simulation/seeded_read_pool.h"
#include "tests/simulation/sim_client.h"
#include "tests/simulation/sim_settings.h"
#include "tests/simulation/sim_transport.h"
#include "tests/support/server_thread.h"
#include "tests/support/test_clock.h"

namespace remora {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Thrown in a client where it waits, when its process is to end there.
struct Crashed {};

/// A client's machine: a clock that is another one, and coarse; a sleep by it lets others go on.
class ActorClock final : public Clock {
 public:
  ActorClock(const Clock& base, milliseconds ahead, std::int64_t drift_ppm, Duration tick,
             std::function<void(Duration)> sleep)
      : clock_(base, ahead, drift_ppm), tick_(tick), sleep_(std::move(sleep)) {}
  TimePoint Now() const override { return clock_.Now(); }
  TimePoint Coarse() const override {
    const TimePoint now = Now();
    return now - now.time_since_epoch() % tick_;
  }
  std::int64_t UnixMillis() const override { return clock_.UnixMillis(); }
  void Sleep(Duration duration) const override { sleep_(duration); }

 private:
  const OtherClock clock_;
  const Duration tick_;
  const std::function<void(Duration)> sleep_;
};

class World {
 public:
  explicit World(const SimWorldOptions& options)
      : options_(options),
        random_(options.seed),
        settings_(Choose(random_)),
        network_(random_()),
        server_clock_(network_.clock(), std::chrono::hours(5), settings_.drift_ppm) {
    settings_.workload.seed = options.seed;
    if (options.mirrors && settings_.client.index_mirror_bytes == 0)
      settings_.client.index_mirror_bytes = MirrorBytes(options.seed);
    if (options.one_sided) ScanOneSided(options.seed, &settings_);
    settings_.server.store.clock = &server_clock_;
    settings_.server.make_read_pool = SeededReadPool::FactoryOf(options.seed);
    if (settings_.server.store.durability != Durability::kMemory) {
      settings_.server.store.data_dir = dir_.path() + "/data";
    }
    network_.set_piece_size(settings_.piece_size);
    network_.set_grants(settings_.grants);
    network_.set_yield([this] { Yield(); }, settings_.gap);
    shared_.changes_end = [this] {
      // Writes behind one that waits for the disk are not shown yet.
      const bool all_is_shown = server_ != nullptr && server_->store().Read(Metric::kWritesUnsynced) == 0;
      return all_is_shown ? server_->store().Read(Metric::kChangesEnd) : ~std::uint64_t{0};
    };
  }

  SimResult Run() {
    const TimePoint start = network_.clock().Now();
    result_.settings = Text(settings_);
    StartServer();
    for (std::uint32_t i = 0; i < settings_.clients; ++i) actors_.push_back(NewActor(i));
    clients_made_ = settings_.clients;
    while (operations() < options_.operations && result_.complaints.empty()) Turn();
    Finish();
    result_.counts.virtual_ms =
        static_cast<std::uint64_t>(std::chrono::floor<milliseconds>(network_.clock().Now() - start).count());
    Judge();
    return std::move(result_);
  }

 private:
  struct Actor {
    std::unique_ptr<ActorClock> clock;
    std::unique_ptr<SimClient> client;
    TimePoint wake{};  // sleeps, or is frozen, until then
    bool crash = false;
    bool reads_all = false;
    std::unique_ptr<Fiber> fiber;
  };

  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  std::uint64_t operations() const {
    std::uint64_t done = 0;
    for (const auto& actor : actors_) done += actor->client->notes().done();
    return done;
  }

  // --- The server

  void StartServer() {
    settings_.server.store.incarnation = random_();
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(settings_.server);
    // Behind RocksDB, which uses it, and more of it when the process has not done so before.
    SeedDevice(random_());
    if (server.ok()) {
      server_ = *std::move(server);
      const absl::Status listens = server_->AddListener(network_.Listen());
      REMORA_CHECK(listens.ok());
    } else {
      result_.complaints.push_back("the server does not start: " + server.status().ToString());
    }
  }

  void StopServer() {
    if (server_ == nullptr) return;
    const ServerStore& store = server_->store();
    result_.counts.cleaned += store.Read(Metric::kSegmentsCleaned);
    result_.counts.evictions += store.Read(Metric::kEvictions);
    result_.counts.fetches += store.Read(Metric::kFetches);
    result_.counts.expired += store.Read(Metric::kExpired);
    result_.counts.outcomes += store.Read(Metric::kCompletionsTold);
    server_.reset();
  }

  void StepServer() {
    if (server_ == nullptr) {
      if (network_.clock().Now() >= server_until_) StartServer();
      return;
    }
    if (network_.clock().Now() < server_until_) return;
    server_->Step();
    if (Below(3) == 0) server_->store().Sync();
    if (settings_.server.store.loading == Loading::kInSteps && Below(2) == 0) server_->store().Load();
  }

  // --- The clients

  std::unique_ptr<Actor> NewActor(std::uint32_t number) {
    auto actor = std::make_unique<Actor>();
    Actor* const self = actor.get();
    const auto sleep = [this, self](Duration duration) {
      self->wake = network_.clock().Now() + duration;
      Yield();
    };
    actor->clock = std::make_unique<ActorClock>(network_.clock(), milliseconds(Below(100'000)),
                                                static_cast<std::int64_t>(Below(1001)) - 500,
                                                microseconds(Below(10'000) + 1), sleep);
    const auto now = [this] {
      network_.Advance(nanoseconds(1));  // no two moments are the same
      return nanoseconds(network_.clock().Now().time_since_epoch()).count();
    };
    // The first reads all, in the end.
    const std::uint32_t async_to = settings_.async_clients;
    const auto make = number == 0                               ? NewBlockingClient
                      : number <= async_to                      ? NewAsyncClient
                      : number <= async_to + settings_.watchers ? NewWatchingClient
                                                                : NewBlockingClient;
    actor->client = make(settings_.workload, number, shared_, now);
    actor->fiber = std::make_unique<Fiber>([this, self] { Live(*self); });
    return actor;
  }

  void Live(Actor& self) {
    while (!stopping_ || self.reads_all || self.client->has_more()) {
      bool crashed = false;
      try {
        if (!self.client->is_connected()) {
          Connect(self);
        } else if (self.reads_all) {
          self.client->ReadAll();
          self.reads_all = false;
        } else if (stopping_) {
          self.client->Settle();
        } else {
          self.client->Do();
        }
      } catch (const Crashed&) {
        crashed = true;
      }
      if (crashed) self.client->Disconnect();
    }
    self.client->Disconnect();
  }

  void Connect(Actor& self) {
    const absl::Status connected =
        self.client->Connect([this](TimePoint) { return network_.Dial(); }, settings_.client, *self.clock);
    if (connected.ok()) {
      self.client->notes().set_client(++clients_made_);
    } else {
      self.clock->Sleep(milliseconds(1));
    }
  }

  /// Called in a client's fiber, wherever it waits; in the server it does nothing.
  void Yield() {
    if (Fiber::Current() == nullptr) return;
    Fiber::Yield();
    if (running_->crash && std::uncaught_exceptions() == 0) {
      running_->crash = false;
      throw Crashed();
    }
  }

  // --- Turns and faults

  void Turn() {
    PassTime();
    if (settings_.fault_gap > 0 && !stopping_ && Below(settings_.fault_gap) == 0) Fail();
    if (Below(3) == 0) return StepServer();
    Actor& actor = *actors_[Below(actors_.size())];
    if (!actor.fiber->has_ended() && (network_.clock().Now() >= actor.wake || actor.crash)) {
      running_ = &actor;
      actor.fiber->Resume();
    }
  }

  void PassTime() {
    const TimePoint now = network_.clock().Now();
    network_.Advance(nanoseconds(1 + Below(2 * settings_.pace_ns)));
    if (Below(20'000) == 0) network_.Advance(milliseconds(Below(300)));
    if (Below(16) != 0) return;
    // Where nobody can do anything, until somebody can.
    TimePoint next = now < server_until_ ? server_until_ : now;
    for (const auto& actor : actors_) {
      if (!actor->fiber->has_ended()) next = std::min(next, actor->wake);
    }
    if (next > network_.clock().Now()) network_.Advance(next - network_.clock().Now());
  }

  void Fail() {
    const Duration grace = settings_.server.store.grace;
    Actor& actor = *actors_[Below(actors_.size())];
    switch (Below(12)) {
      case 0:
        if (!settings_.crashes || Below(8) != 0 || server_ == nullptr) return;
        ++result_.counts.server_crashes;
        StopServer();
        server_until_ =
            network_.clock().Now() + (Below(4) == 0 ? milliseconds(Below(8000)) : milliseconds(Below(20)));
        return;
      case 1:
        ++result_.counts.client_crashes;
        actor.crash = true;
        return;
      case 2:
      case 3:
      case 4:
      case 5:
        if (network_.CutOne(random_(), Below(2) == 0 ? SimNetwork::Cut::kBoth : SimNetwork::Cut::kClient)) {
          ++result_.counts.drops;
        }
        return;
      case 6:
      case 7:
        ++result_.counts.freezes;
        actor.wake = network_.clock().Now() + microseconds(Below(2000));
        return;
      case 8:
      case 9:
        ++result_.counts.freezes;
        ++result_.counts.long_freezes;
        actor.wake = network_.clock().Now() + grace * (1 + Below(2)) + microseconds(Below(300'000));
        return;
      default:
        if (server_ == nullptr) return;
        ++result_.counts.stalls;
        server_until_ = network_.clock().Now() + microseconds(Below(8) == 0 ? Below(400'000) : Below(3000));
    }
  }

  /// All that is in flight ends; then somebody reads everything.
  void Finish() {
    stopping_ = true;
    for (const auto& actor : actors_) actor->wake = {};
    server_until_ = {};
    actors_.front()->reads_all = result_.complaints.empty();
    while (!std::ranges::all_of(actors_, [](const auto& actor) { return actor->fiber->has_ended(); })) Turn();
    StopServer();
  }

  void Judge() {
    linear::History history;
    SimCounts& counts = result_.counts;
    for (const auto& actor : actors_) {
      counts.operations += actor->client->notes().done();
      linear::History& one = actor->client->notes().history();
      std::ranges::move(one.operations, std::back_inserter(history.operations));
      std::ranges::move(one.scans, std::back_inserter(history.scans));
      std::ranges::move(one.watches, std::back_inserter(history.watches));
      std::ranges::copy(actor->client->notes().complaints(), std::back_inserter(result_.complaints));
    }
    for (const linear::Operation& operation : history.operations) {
      const bool is_unknown = operation.outcome == linear::Outcome::kUnknown && linear::IsEffect(operation);
      if (is_unknown) ++counts.unknown;
      for (const std::uint64_t part :
           {static_cast<std::uint64_t>(operation.begun), operation.version,
            static_cast<std::uint64_t>(operation.ended), static_cast<std::uint64_t>(operation.outcome)}) {
        result_.digest = (result_.digest ^ part) * 0x100000001b3u;
      }
    }
    linear::CheckOptions options;
    options.drift_ppm = 1000;
    options.writes_in_order = true;
    result_.verdict = linear::Check(history, options);
    counts.judged = result_.verdict.checked;
    const auto is_one_sided = [](const linear::ScanResult& scan) { return scan.is_one_sided; };
    counts.one_sided_scans = static_cast<std::uint64_t>(std::ranges::count_if(history.scans, is_one_sided));
    counts.scans = history.scans.size() - counts.one_sided_scans;
    counts.watches = history.watches.size();
    for (const linear::WatchResult& watch : history.watches) {
      counts.shown += watch.changes.size();
      for (const auto& change : watch.changes) {
        result_.digest = (result_.digest ^ static_cast<std::uint64_t>(change.shown)) * 0x100000001b3u;
      }
    }
    counts.pieces = network_.pieces_delivered();
    counts.worlds = 1;
  }

  const SimWorldOptions options_;
  std::mt19937_64 random_;
  SimSettings settings_;
  const TempDir dir_;
  SimNetwork network_;
  const OtherClock server_clock_;
  linear::WorkloadShared shared_;
  SimResult result_;
  std::unique_ptr<Server> server_;
  TimePoint server_until_{};  // is stalled, or not there, until then
  std::vector<std::unique_ptr<Actor>> actors_;
  Actor* running_ = nullptr;
  std::uint32_t clients_made_ = 0;
  bool stopping_ = false;
};

}  // namespace

SimResult RunWorld(const SimWorldOptions& options) { return World(options).Run(); }

SimCounts& SimCounts::operator+=(const SimCounts& other) {
  worlds += other.worlds;
  operations += other.operations;
  unknown += other.unknown;
  judged += other.judged;
  scans += other.scans;
  one_sided_scans += other.one_sided_scans;
  watches += other.watches;
  shown += other.shown;
  server_crashes += other.server_crashes;
  client_crashes += other.client_crashes;
  drops += other.drops;
  freezes += other.freezes;
  long_freezes += other.long_freezes;
  stalls += other.stalls;
  cleaned += other.cleaned;
  evictions += other.evictions;
  fetches += other.fetches;
  expired += other.expired;
  outcomes += other.outcomes;
  pieces += other.pieces;
  virtual_ms += other.virtual_ms;
  return *this;
}

std::string Text(const SimCounts& counts) {
  const auto count = [](std::uint64_t number, const char* what) {
    return std::to_string(number) + " " + what;
  };
  return count(counts.operations, "operations in ") + count(counts.worlds, "worlds of ") +
         count(counts.virtual_ms / 1000, "virtual seconds: ") + count(counts.judged, "judged by key, ") +
         count(counts.unknown, "writes without an answer, ") + count(counts.scans, "scans, ") +
         count(counts.one_sided_scans, "one-sided scans, ") + count(counts.shown, "changes shown by ") +
         count(counts.watches, "watches; ") + count(counts.server_crashes, "server crashes, ") +
         count(counts.client_crashes, "client crashes, ") + count(counts.drops, "connections cut, ") +
         count(counts.outcomes, "lost answers told; ") + count(counts.freezes, "freezes (") +
         count(counts.long_freezes, "beyond the grace period), ") + count(counts.stalls, "stalls; ") +
         count(counts.cleaned, "segments cleaned, ") + count(counts.evictions, "evictions, ") +
         count(counts.fetches, "fetches, ") + count(counts.expired, "expired; ") +
         count(counts.pieces, "pieces read");
}

}  // namespace remora
