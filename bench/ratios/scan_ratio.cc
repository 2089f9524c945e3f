// Cost of a scan beside the RocksDB iterator that is under it. The scans are a store's own, and a client's
// over the local transport, whose server is a thread of this process.
//
// Measured in turns, so that whatever disturbs one disturbs the others. The files were just written, so the
// system has them in memory: this is what the CPUs do, and no disk. The bare iterator is one of
// RocksDB's own, opened read-only on the same files.
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/ratios/filled_tier.h"
#include "bench/ratios/ratio.h"
#include "client/client.h"
#include "rdma/transport.h"
#include "server/server.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"
#include "store/durable/tier.h"
#include "store/scan.h"
#include "tools/command_line/command_line.h"

namespace remora::bench {
namespace {

/// A server on a thread of its own, and a client.
class Served {
 public:
  static absl::StatusOr<std::unique_ptr<Served>> Start(const RunDirectory& directory, const Clock& clock) {
    std::unique_ptr<Served> served(new Served);
    const std::string address = absl::StrCat("local://", directory.path(), "/socket");
    std::promise<absl::StatusOr<Server*>> listening;
    std::future<absl::StatusOr<Server*>> listens = listening.get_future();
    served->thread_ = std::thread([&, stopped = served->stopped_.get_future()]() mutable {
      // All of the server's life is this thread's, as its listener asks for.
      absl::StatusOr<std::unique_ptr<Server>> server = Open(directory.data(), address, clock);
      if (!server.ok()) return listening.set_value(server.status());
      Server* const running = server->get();
      listening.set_value(running);
      running->Run().IgnoreError();
      stopped.wait();  // Stop may still be at work on the server
    });
    REMORA_ASSIGN_OR_RETURN(served->server_, listens.get());
    REMORA_ASSIGN_OR_RETURN(served->client_, Client::Connect(address, {}, clock));
    return served;
  }
  ~Served() {
    client_.reset();
    if (server_ != nullptr) server_->Stop();
    stopped_.set_value();
    if (thread_.joinable()) thread_.join();
  }
  Client& client() { return *client_; }
  Store& store() { return server_->store(); }

 private:
  Served() = default;
  static absl::StatusOr<std::unique_ptr<Server>> Open(const std::string& data, const std::string& address,
                                                      const Clock& clock) {
    ServerOptions options;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = data;
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Create(options));
    REMORA_ASSIGN_OR_RETURN(const rdma::Address parsed, rdma::ParseAddress(address));
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<rdma::Listener> listener, rdma::Listen(parsed, {}, clock));
    REMORA_RETURN_IF_ERROR(server->AddListener(std::move(listener)));
    return server;
  }

  std::thread thread_;
  Server* server_ = nullptr;  // used until the thread is joined
  std::promise<void> stopped_;
  std::unique_ptr<Client> client_;
};

absl::Status ToStatus(const rocksdb::Status& status) {
  return status.ok() ? absl::OkStatus() : absl::UnavailableError(status.ToString());
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenReadOnly(
    const std::string& data, std::vector<rocksdb::ColumnFamilyHandle*>* families) {
  const std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {{rocksdb::kDefaultColumnFamilyName, {}},
                                                                    {"meta", {}}};
  rocksdb::DB* db = nullptr;
  REMORA_RETURN_IF_ERROR(
      ToStatus(rocksdb::DB::OpenForReadOnly(rocksdb::DBOptions(), data, descriptors, families, &db)));
  return std::unique_ptr<rocksdb::DB>(db);
}

/// Looks at each shown entry, a little: the time is for having it.
struct Seen {
  std::uint64_t keys = 0;
  std::uint64_t sum = 0;
  void See(std::string_view key, std::string_view value) {
    ++keys;
    sum += static_cast<unsigned char>(key.back()) + static_cast<unsigned char>(value.back()) + value.size();
  }
};

absl::StatusOr<Seen> ScanBare(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> iterator(db.NewIterator(options, family));
  Seen seen;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const rocksdb::Slice key = iterator->key();
    const rocksdb::Slice value = iterator->value();
    seen.See({key.data(), key.size()},
             std::string_view(value.data(), value.size()).substr(sizeof(StoredHeader)));
  }
  REMORA_RETURN_IF_ERROR(ToStatus(iterator->status()));
  return seen;
}

template <typename From>
absl::StatusOr<Seen> ScanAll(From& from) {
  REMORA_ASSIGN_OR_RETURN(const auto scan, from.Scan());
  Seen seen;
  while (scan->Next()) seen.See(scan->key(), scan->value());
  REMORA_RETURN_IF_ERROR(scan->status());
  return seen;
}

absl::Status Run(const TierFlags& flags) {
  const SteadyClock clock;
  const RunDirectory directory(flags.directory, "scan_ratio");
  REMORA_RETURN_IF_ERROR(directory.status());
  REMORA_RETURN_IF_ERROR(FillTier(directory.data(), flags));
  // Opened before the store's own: its compactions could remove files while this is being opened.
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> bare, OpenReadOnly(directory.data(), &families));
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Served> served, Served::Start(directory, clock));

  std::vector<double> bare_seconds, store_seconds, client_seconds;
  const auto time = [&](std::vector<double>& seconds, const auto& scan) -> absl::Status {
    const TimePoint begin = clock.Now();
    REMORA_ASSIGN_OR_RETURN(const Seen seen, scan());
    seconds.push_back(std::chrono::duration<double>(clock.Now() - begin).count());
    return seen.keys == flags.keys ? absl::OkStatus() : absl::InternalError("scan: it did not show all keys");
  };
  absl::Status status;
  for (std::uint32_t round = 0; round < flags.rounds && status.ok(); ++round) {
    status = time(bare_seconds, [&] { return ScanBare(*bare, families[0]); });
    if (status.ok()) status = time(store_seconds, [&] { return ScanAll(served->store()); });
    if (status.ok()) status = time(client_seconds, [&] { return ScanAll(served->client()); });
  }
  for (rocksdb::ColumnFamilyHandle* family : families) delete family;
  REMORA_RETURN_IF_ERROR(status);

  std::cout << absl::StrFormat("scan_ratio: %d keys, values of %d bytes; medians of %d rounds in turns\n",
                               flags.keys, flags.value_size, flags.rounds);
  const double base = MedianOf(bare_seconds);
  const auto print = [&](const char* name, const std::vector<double>& seconds) {
    const double median = MedianOf(seconds);
    std::cout << absl::StrFormat("  %-22s %9.1f ms  %6.0f ns/key  %5.2f of the iterator's speed\n", name,
                                 median * 1e3, median * 1e9 / static_cast<double>(flags.keys), base / median);
  };
  print("RocksDB iterator", bare_seconds);
  print("Store::Scan", store_seconds);
  print("Client::Scan, local", client_seconds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace remora::bench

int main(int argc, char** argv) {
  remora::bench::TierFlags flags;
  remora::command_line::CommandLine line(
      "scan_ratio measures a store's scan, and a client's over the local transport, beside a RocksDB "
      "iterator.\n"
      "It fills a store of its own, and removes it.\n",
      "scan_ratio");
  AddTierFlags(line, flags);
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  return remora::bench::ExitStatusOf("scan_ratio", remora::bench::Run(flags));
}
