// Many operations at once from one thread: with callbacks, and with coroutines. example_async ADDRESS
#include <remora/async_client.h>
#include <remora/coroutine_client.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

namespace {

constexpr int kItems = 40;

[[noreturn]] void Fail(std::string_view what, const absl::Status& status) {
  std::cerr << what << ": " << status << '\n';
  std::exit(1);
}

std::string KeyOf(int i) { return "item/" + std::to_string(i); }

// Callbacks: all of these are in flight together.
void Fill(remora::AsyncClient& client, remora::TimePoint deadline) {
  for (int i = 0; i < kItems; ++i) {
    const auto put = client.Put(KeyOf(i), std::to_string(i), [](const remora::AsyncResult& result) {
      if (!result.status.ok()) Fail("put", result.status);
    });
    if (!put.ok()) Fail("put", put.status());
  }
  if (absl::Status all = client.WaitAll(deadline); !all.ok()) Fail("put", all);
}

// A coroutine: one thing after the other, while others do theirs.
remora::Task<absl::Status> AddToTotal(remora::CoroutineClient& kv, std::string key) {
  const absl::StatusOr<std::string> value = co_await kv.Get(key);
  if (!value.ok()) co_return value.status();
  const absl::StatusOr<std::int64_t> total = co_await kv.Increment("total", std::stoll(*value));
  co_return total.status();
}

remora::Task<void> Add(remora::CoroutineClient& kv, int i) {
  const absl::Status added = co_await AddToTotal(kv, KeyOf(i));
  if (!added.ok()) Fail("add", added);
}

remora::Task<void> ShowTotal(remora::CoroutineClient& kv) {
  const absl::StatusOr<std::string> total = co_await kv.Get("total");
  if (!total.ok()) Fail("get", total.status());
  std::cout << *total << '\n';
  const absl::Status reset = co_await kv.Delete("total");
  if (!reset.ok()) Fail("delete", reset);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: example_async ADDRESS\n";
    return 64;
  }
  auto client = remora::AsyncClient::Connect(argv[1]);
  if (!client.ok()) Fail("connecting", client.status());
  const remora::TimePoint deadline = remora::DefaultClock().Now() + std::chrono::seconds(10);
  Fill(**client, deadline);

  remora::CoroutineClient kv(*std::move(client));
  for (int i = 0; i < kItems; ++i) kv.Start(Add(kv, i));
  if (absl::Status run = kv.Run(deadline); !run.ok()) Fail("adding", run);
  kv.Start(ShowTotal(kv));
  if (absl::Status run = kv.Run(deadline); !run.ok()) Fail("showing", run);
  return 0;
}
