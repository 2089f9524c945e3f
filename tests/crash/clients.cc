#include "clients.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "store/base/check.h"
#include "tests/support/self_describing.h"

namespace remora {

namespace {
constexpr std::string_view kCounter = "counter";
constexpr std::chrono::seconds kPatience{60};
}  // namespace

/// One connection, and what went over it.
class Clients::Client {
 public:
  Client(Clients& all, std::uint64_t seed) : all_(all), random_(seed) {
    auto client = remora::Client::Connect(all.options_.address,
                                          {.connect_timeout = kPatience, .timeout = kPatience}, clock_);
    REMORA_CHECK(client.ok());
    client_ = *std::move(client);
  }

  void Write() {
    while (!all_.stop_) {
      const std::size_t choice = Below(100);
      if (choice < 40) {
        PutOne();
      } else if (choice < 52) {
        DeleteOne();
      } else if (choice < 68) {
        PutBatch();
      } else if (choice < 84) {
        Replace();
      } else if (choice < 84 + all_.options_.synced / 4) {
        Increment();
      }
    }
  }
  void Read() {
    while (!all_.stop_) {
      if (Below(16) == 0) {
        ReadCounter();
      } else {
        ReadOne(Key());
      }
      // Writers need the CPU, too.
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void ReadAll() {
    for (std::size_t i = 0; i < all_.options_.keys; ++i) ReadOne(KeyOf(i));
    ReadCounter();
  }

  History history;
  std::vector<std::string> complaints;

 private:
  std::size_t Below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  static std::string KeyOf(std::size_t number) { return absl::StrCat("key", number); }
  std::string Key() { return KeyOf(Below(all_.options_.keys)); }
  Durability Level() {
    if (Below(100) < all_.options_.synced) return Durability::kSynced;
    return Below(5) == 0 ? Durability::kMemory : Durability::kLogged;
  }
  /// Mostly small; now and then several pages of a log file; seldom one that does not pass through a staging
  /// buffer.
  std::size_t Size() {
    const std::size_t choice = Below(400);
    return choice == 0 ? std::size_t{300} << 10 : choice < 20 ? Below(20'000) : Below(200);
  }

  HistoryWrite& Begin(std::vector<HistoryWrite::Part> parts, Durability level) {
    HistoryWrite& write = history.writes.emplace_back();
    write.id = ++all_.last_id_;
    write.parts = std::move(parts);
    write.level = level;
    write.begun = all_.Tick();
    return write;
  }

  void End(HistoryWrite& write, const absl::Status& status) {
    switch (status.code()) {
      case absl::StatusCode::kOk:
        write.outcome = HistoryWrite::Outcome::kDone;
        write.ended = all_.Tick();
        break;
      case absl::StatusCode::kNotFound:
      case absl::StatusCode::kFailedPrecondition:
      case absl::StatusCode::kResourceExhausted:
        write.outcome = HistoryWrite::Outcome::kRejected;
        write.ended = all_.Tick();
        break;
      case absl::StatusCode::kUnavailable:
      case absl::StatusCode::kDeadlineExceeded:
      case absl::StatusCode::kUnknown:
        break;  // unknown, for ever
      default:
        complaints.push_back(absl::StrCat("write ", write.id, ": ", status.ToString()));
    }
  }

  void PutOne() {
    HistoryWrite& write = Begin({{Key(), false}}, Level());
    const std::string& key = write.parts.front().key;
    End(write, client_->Put(key, MakeValue(key, write.id, Size()),
                            {.durability = write.level, .version = &write.version}));
  }

  void DeleteOne() {
    HistoryWrite& write = Begin({{Key(), true}}, Level());
    End(write,
        client_->Delete(write.parts.front().key, {.durability = write.level, .version = &write.version}));
  }

  void PutBatch() {
    std::set<std::string> keys;
    for (std::size_t count = 2 + Below(4); count > 0; --count) keys.insert(Key());
    std::vector<HistoryWrite::Part> parts;
    for (const std::string& key : keys) parts.push_back({key, Below(12) == 0});
    HistoryWrite& write = Begin(std::move(parts), Level());
    WriteBatch batch;
    for (const HistoryWrite::Part& part : write.parts) {
      if (part.is_delete) {
        batch.Delete(part.key);
      } else {
        batch.Put(part.key, MakeValue(part.key, write.id, Below(300)));
      }
    }
    End(write, client_->Apply(batch, &write.version, write.level));
  }

  /// Replaces the current version, and nothing else.
  void Replace() {
    const std::string key = Key();
    const std::uint64_t version = ReadOne(key);
    if (version == 0) return;
    HistoryWrite& write = Begin({{key, false}}, Level());
    write.replaced = version;
    End(write, client_->Put(key, MakeValue(key, write.id, Size()),
                            {.condition = Condition::Version(version),
                             .durability = write.level,
                             .version = &write.version}));
  }

  void Increment() {
    HistoryWrite& write = Begin({{std::string(kCounter), false}}, all_.options_.spared);
    write.is_increment = true;
    const absl::StatusOr<std::int64_t> sum =
        client_->Increment(kCounter, 1, {.durability = write.level, .version = &write.version});
    if (sum.ok()) write.result = *sum;
    End(write, sum.status());
  }

  /// Returns the version; 0: there is none.
  std::uint64_t ReadOne(const std::string& key) {
    HistoryRead read;
    read.key = key;
    read.begun = all_.Tick();
    const absl::Status status = client_->Get(key, &value_, &read.version);
    read.ended = all_.Tick();
    if (status.ok()) {
      const std::optional<std::uint64_t> id = NumberOf(key, value_);
      if (!id) complaints.push_back(absl::StrCat("key ", key, " has bytes of nobody"));
      read.id = id.value_or(0);
    } else if (!absl::IsNotFound(status)) {
      if (!absl::IsUnavailable(status))
        complaints.push_back(absl::StrCat("read ", key, ": ", status.ToString()));
      return 0;
    } else {
      read.version = 0;
    }
    history.reads.push_back(read);
    return read.version;
  }

  void ReadCounter() {
    HistoryRead read;
    read.key = kCounter;
    read.is_counter = true;
    read.begun = all_.Tick();
    const absl::Status status = client_->Get(kCounter, &value_, &read.version);
    read.ended = all_.Tick();
    if (absl::IsNotFound(status)) {
      read.version = 0;
    } else if (!status.ok()) {
      return;
    } else if (std::from_chars(value_.data(), value_.data() + value_.size(), read.number).ec != std::errc()) {
      complaints.push_back(absl::StrCat("the counter is ", value_));
    }
    history.reads.push_back(read);
  }

  Clients& all_;
  std::mt19937_64 random_;
  const SteadyClock clock_;
  std::unique_ptr<remora::Client> client_;
  std::string value_;
};

Clients::Clients(const ClientsOptions& options) : options_(options) {
  for (std::size_t i = 0; i < options.writers + options.readers; ++i) {
    clients_.push_back(std::make_unique<Client>(*this, options.seed * 1000 + i));
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    Client* const client = clients_[i].get();
    const bool writes = i < options.writers;
    threads_.emplace_back([client, writes] { writes ? client->Write() : client->Read(); });
  }
}

Clients::~Clients() { REMORA_CHECK(threads_.empty()); }

History Clients::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  clients_.front()->ReadAll();
  History history;
  for (const auto& client : clients_) {
    std::ranges::move(client->history.writes, std::back_inserter(history.writes));
    std::ranges::move(client->history.reads, std::back_inserter(history.reads));
    std::ranges::move(client->complaints, std::back_inserter(complaints_));
  }
  history.crashes = crashes_;
  return history;
}

}  // namespace remora
