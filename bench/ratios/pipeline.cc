// The gain from many operations in flight: an AsyncClient at several depths, and MultiGet and MultiPut,
// beside a Client that waits for each.
//
// The program measures some operations of each kind in turns, so that whatever disturbs one disturbs the
// others; it prints the medians of the turns.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kvbench/load/random.h"
#include "bench/kvbench/load/records.h"
#include "bench/ratios/ratio.h"
#include "bench/ratios/running_server.h"
#include "client/async_client.h"
#include "client/client.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"
#include "tools/command_line/command_line.h"

namespace remora::bench {
namespace {

struct Flags : ServerFlags {
  std::uint64_t records = 1'000'000;
  std::size_t turns = 50;
  std::size_t operations = 2000;
  std::vector<std::size_t> value_sizes = {64, 1024};
  bool gets_only = false;
};

constexpr std::array<std::size_t, 3> kDepths = {1, 16, 64};
constexpr std::size_t kMany = 16;

/// One way of doing all operations of a turn.
struct Way {
  std::string name;
  std::function<absl::Status()> turn;
  std::vector<double> nanoseconds{};  // of an operation, by turn

  double Median() const { return MedianOf(nanoseconds); }
};

/// The ways for one size of values.
class Pipeline {
 public:
  Pipeline(const Flags& flags, std::size_t value_size, Client& client,
           std::span<const std::unique_ptr<AsyncClient>> async, const Clock& clock)
      : flags_(flags), client_(client), clock_(clock), values_(value_size), value_size_(value_size) {
    gets_.push_back({"Client::Get", [this] { return Gets(); }});
    gets_.push_back({absl::StrCat("Client::MultiGet of ", kMany), [this] { return MultiGets(); }});
    gets_.push_back({"Client::Get, registered memory", [this] { return RegisteredGets(); }});
    puts_.push_back({"Client::Put", [this] { return Puts(); }});
    puts_.push_back({"Client::Put, registered memory", [this] { return RegisteredPuts(); }});
    puts_.push_back({absl::StrCat("Client::MultiPut of ", kMany), [this] { return MultiPuts(); }});
    for (std::size_t i = 0; i < kDepths.size(); ++i) {
      const std::string depth = absl::StrCat(", depth ", kDepths[i]);
      AsyncClient& one = *async[i];
      gets_.push_back({"AsyncClient::Get" + depth, [this, &one] { return AsyncGets(one); }});
      puts_.push_back({"AsyncClient::Put" + depth, [this, &one] { return AsyncPuts(one); }});
    }
  }

  absl::Status Load() {
    REMORA_RETURN_IF_ERROR(PutRecords(client_, values_, flags_.records));
    value_ = std::string(values_.Make(0, 0));
    memory_.resize(value_size_);
    std::memcpy(memory_.data(), value_.data(), value_size_);
    REMORA_ASSIGN_OR_RETURN(buffer_, client_.Register(memory_));
    return absl::OkStatus();
  }

  absl::Status Measure() {
    for (std::size_t turn = 0; turn < flags_.turns; ++turn) {
      for (std::vector<Way>* ways : {&gets_, &puts_}) {
        if (ways == &puts_ && flags_.gets_only) continue;
        for (std::size_t i = 0; i < ways->size(); ++i) {
          // Another one comes first in each turn.
          Way& way = (*ways)[(i + turn) % ways->size()];
          DrawKeys();
          const TimePoint begin = clock_.Now();
          REMORA_RETURN_IF_ERROR(way.turn());
          const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(clock_.Now() - begin);
          way.nanoseconds.push_back(static_cast<double>(took.count()) /
                                    static_cast<double>(flags_.operations));
        }
      }
    }
    return absl::OkStatus();
  }

  void Print() const {
    std::cout << absl::StrFormat("values of %d bytes\n", value_size_);
    for (const std::vector<Way>* ways : {&gets_, &puts_}) {
      if (ways->front().nanoseconds.empty()) continue;
      const double base = ways->front().Median();
      for (const Way& way : *ways) {
        std::cout << absl::StrFormat("  %-31s %9.0f ns   ratio %6.3f\n", way.name, way.Median(),
                                     way.Median() / base);
      }
    }
  }

 private:
  void DrawKeys() {
    keys_.clear();
    for (std::size_t i = 0; i < flags_.operations; ++i) keys_.emplace_back(random_.NextBelow(flags_.records));
  }

  absl::Status Gets() {
    for (const KeyText& key : keys_) REMORA_RETURN_IF_ERROR(client_.Get(key.view(), &got_));
    return absl::OkStatus();
  }
  absl::Status Puts() {
    for (const KeyText& key : keys_) REMORA_RETURN_IF_ERROR(client_.Put(key.view(), value_));
    return absl::OkStatus();
  }
  absl::Status RegisteredGets() {
    for (const KeyText& key : keys_) REMORA_RETURN_IF_ERROR(client_.Get(key.view(), *buffer_).status());
    return absl::OkStatus();
  }
  absl::Status RegisteredPuts() {
    for (const KeyText& key : keys_) REMORA_RETURN_IF_ERROR(client_.Put(key.view(), *buffer_));
    return absl::OkStatus();
  }
  absl::Status MultiGets() {
    std::array<std::string_view, kMany> keys;
    for (std::size_t first = 0; first + kMany <= keys_.size(); first += kMany) {
      for (std::size_t i = 0; i < kMany; ++i) keys[i] = keys_[first + i].view();
      REMORA_RETURN_IF_ERROR(client_.MultiGet(keys, many_got_));
      for (const GetResult& result : many_got_) REMORA_RETURN_IF_ERROR(result.status);
    }
    return absl::OkStatus();
  }
  absl::Status MultiPuts() {
    std::array<PutRequest, kMany> requests;
    std::array<PutResult, kMany> results;
    for (std::size_t first = 0; first + kMany <= keys_.size(); first += kMany) {
      for (std::size_t i = 0; i < kMany; ++i) requests[i] = {keys_[first + i].view(), value_};
      REMORA_RETURN_IF_ERROR(client_.MultiPut(requests, results));
      for (const PutResult& result : results) REMORA_RETURN_IF_ERROR(result.status);
    }
    return absl::OkStatus();
  }

  template <typename Begin>
  absl::Status Async(AsyncClient& client, const Begin& begin) {
    absl::Status failed;
    const TimePoint deadline = clock_.Now() + std::chrono::minutes(1);
    for (const KeyText& key : keys_) {
      while (client.free_slots() == 0) REMORA_RETURN_IF_ERROR(client.Wait(deadline).status());
      REMORA_RETURN_IF_ERROR(begin(key.view(), &failed).status());
    }
    REMORA_RETURN_IF_ERROR(client.WaitAll(deadline));
    return failed;
  }
  absl::Status AsyncGets(AsyncClient& client) {
    return Async(client, [&](std::string_view key, absl::Status* failed) {
      return client.Get(key, [this, failed](const AsyncResult& got) {
        if (!got.status.ok()) *failed = got.status;
        got_.assign(got.value);
      });
    });
  }
  absl::Status AsyncPuts(AsyncClient& client) {
    return Async(client, [&](std::string_view key, absl::Status* failed) {
      return client.Put(key, value_, [failed](const AsyncResult& put) {
        if (!put.status.ok()) *failed = put.status;
      });
    });
  }

  const Flags& flags_;
  Client& client_;
  const Clock& clock_;
  ValueMaker values_;
  const std::size_t value_size_;
  Random random_{1};
  std::vector<KeyText> keys_;
  std::string value_;
  std::string got_;
  std::array<GetResult, kMany> many_got_;
  std::vector<std::byte> memory_;
  std::unique_ptr<RegisteredBuffer> buffer_;
  std::vector<Way> gets_;
  std::vector<Way> puts_;
};

absl::Status Run(const Flags& flags) {
  const SteadyClock clock;
  REMORA_ASSIGN_OR_RETURN(ClientOptions options, OptionsOf(flags));
  options.location_cache_bytes = 0;  // each GET is a cold one, whoever makes it
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                          Client::Connect(flags.server, options, clock));
  std::vector<std::unique_ptr<AsyncClient>> async(kDepths.size());
  for (std::size_t i = 0; i < kDepths.size(); ++i) {
    REMORA_ASSIGN_OR_RETURN(async[i],
                            AsyncClient::Connect(flags.server, options, {.depth = kDepths[i]}, clock));
  }
  std::cout << absl::StrFormat("pipeline: %s, %d records, medians of %d turns of %d operations each\n",
                               flags.server, flags.records, flags.turns, flags.operations);
  for (const std::size_t value_size : flags.value_sizes) {
    Pipeline pipeline(flags, value_size, *client, async, clock);
    REMORA_RETURN_IF_ERROR(pipeline.Load());
    REMORA_RETURN_IF_ERROR(pipeline.Measure());
    pipeline.Print();
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace remora::bench

int main(int argc, char** argv) {
  remora::bench::Flags flags;
  remora::command_line::CommandLine line(
      "pipeline measures what many operations in flight bring: one connection, one thread, a running "
      "server.\n"
      "It overwrites kvbench's records, and leaves them.\n",
      "pipeline");
  AddServerFlags(line, flags);
  line.Add("--records", flags.records, "Records; rounded up to a multiple of 16")
      .Range(1u, 1'000'000'000u)
      .ShowDefault();
  line.Add("--turns", flags.turns, "Times that each is measured, for each size")
      .Range(1u, 1'000'000u)
      .ShowDefault();
  line.Add("--operations", flags.operations, "Operations of each turn; a multiple of 16 is best")
      .Range(16u, 100'000'000u)
      .ShowDefault();
  line.Add("--value_size", flags.value_sizes, "Sizes of values, in bytes")
      .Separator(',')
      .Range(remora::bench::kMinBenchValueSize, remora::kMaxSmallValueSize)
      .ShowDefault();
  line.AddFlag("--gets_only", flags.gets_only, "Measure no PUTs");
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  return remora::bench::ExitStatusOf("pipeline: " + flags.server, remora::bench::Run(flags));
}
