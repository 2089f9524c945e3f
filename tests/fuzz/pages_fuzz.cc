// Pages of scans and of watches, as a client reads them out of its window, where a server has WRITTEN
// anything, and said anything of it. Each result is in bounds, in the order that was asked for, and in its
// range; each call ends.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "client/client.h"
#include "client/scan.h"
#include "client/watch.h"
#include "store/format/memory/hash_order.h"
#include "store/format/wire/resume_token.h"
#include "store/format/wire/scan_messages.h"
#include "tests/fuzz/hostile_server.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

constexpr std::uint64_t kMemorySize = 16 * kSegmentSize;

/// Entries that get far, in pages that end anywhere, unless the input says otherwise.
class Pages {
 public:
  Pages(Input& input, bool of_changes) : input_(input), of_changes_(of_changes) {}

  bool is_over() const { return input_.empty() && stream_.empty(); }

  std::string Answer(std::string_view message, std::span<std::byte> window) {
    Request request;
    Reply reply;
    if (!FromBytes(std::as_bytes(std::span(message)), &request)) return {};
    reply.request_id = request.request_id;
    reply.server_ms = 1'600'000'000'000;
    const auto how = input_.Take<std::uint8_t>();
    if (request.operation == Operation::kScan || request.operation == Operation::kScanNext) {
      for (int entries = how & 7; entries > 0 && !input_.empty(); --entries) AddEntry();
      std::size_t size = stream_.size();
      if ((how & 8) != 0) size = std::min<std::size_t>(size, input_.Take<std::uint16_t>());
      const std::size_t at = request.operation == Operation::kScanNext ? request.payload_offset : 0;
      size = std::min({size, kMinPageSize, window.size() - std::min(at, window.size())});
      stream_.copy(reinterpret_cast<char*>(window.data()) + at, size);
      stream_.erase(0, size);
      reply.result = static_cast<std::int64_t>(size);
      reply.version = of_changes_ || !is_over() ? 1 : 0;
      reply.slot = of_changes_ ? sequence_ : 0;
    }
    if ((how & 0xf0) == 0xf0) {
      const auto what = input_.Take<std::uint8_t>();
      if ((what & 1) != 0) reply.result = input_.Take<std::int64_t>();
      if ((what & 2) != 0) reply.version = input_.Take<std::uint64_t>();
      if ((what & 4) != 0) reply.slot = input_.Take<std::uint64_t>();
      if ((what & 8) != 0) reply.status = static_cast<ReplyStatus>(input_.Take<std::uint8_t>() % 12);
      if ((what & 16) != 0) reply.behind_size = input_.Take<std::uint8_t>();
    }
    std::string bytes(reinterpret_cast<const char*>(&reply), sizeof(reply));
    bytes += input_.Bytes(reply.behind_size);
    return bytes;
  }

 private:
  void AddEntry() {
    const auto how = input_.Take<std::uint8_t>();
    // Each key lies beyond the last one.
    std::string key = "k" + std::to_string(1000 + ++count_);
    if ((how & 1) != 0) key = input_.Text();
    const std::string value(input_.Text());
    if (of_changes_) {
      ChangeEntry entry{.sequence = ++sequence_,
                        .version = 1,
                        .value_size = static_cast<std::uint32_t>(value.size()),
                        .key_size = static_cast<std::uint16_t>(key.size()),
                        .kind = (how & 2) != 0 ? ChangeKind::kDelete : ChangeKind::kPut};
      if (entry.kind == ChangeKind::kDelete) entry.version = entry.value_size = 0;
      Add(how, &entry, key, entry.kind == ChangeKind::kDelete ? "" : value);
    } else {
      ScanEntry entry{.version = 1,
                      .expiry_ms = (how & 2) != 0 ? 1'600'000'000'000u + input_.Take<std::uint16_t>() : 0,
                      .value_size = static_cast<std::uint32_t>(value.size()),
                      .key_size = static_cast<std::uint16_t>(key.size())};
      Add(how, &entry, key, value);
    }
  }
  template <typename T>
  void Add(std::uint8_t how, T* entry, std::string_view key, std::string_view value) {
    auto* const bytes = reinterpret_cast<char*>(entry);
    if ((how & 0x20) != 0) *entry = input_.Take<T>();
    for (int changes = how >> 6; changes > 0; --changes) {
      const auto at = input_.Take<std::uint8_t>() % sizeof(T);
      bytes[at] = input_.Take<char>();
    }
    stream_.append(bytes, sizeof(T));
    stream_ += key;
    stream_ += value;
  }

  Input& input_;
  const bool of_changes_;
  std::string stream_;  // not sent yet
  std::uint64_t count_ = 0;
  std::uint64_t sequence_ = 0;
};

/// Touches each byte, so that a sanitizer sees where they are.
std::uint64_t Touch(std::string_view bytes) { return HashValue(bytes.data(), bytes.size()); }

void CheckScan(Client& client, const ScanOptions& options) {
  auto scan = client.Scan(options);
  if (!scan.ok()) return;
  std::string last;
  std::uint64_t shown = 0;
  while ((*scan)->Next()) {
    const std::string key((*scan)->key());
    FUZZ_CHECK(key.size() >= kMinKeySize && key.size() <= kMaxKeySize && key.starts_with(options.prefix));
    FUZZ_CHECK((*scan)->version() > 0 && (*scan)->version() < kMaxVersion);
    FUZZ_CHECK((*scan)->value().size() <= (options.keys_only ? 0 : kMaxValueSize));
    if (!last.empty()) {
      const bool ahead = options.reverse ? key < last : key > last;
      FUZZ_CHECK(ahead || (options.any_order && ComesBeforeByHash(last, key)));
    }
    Touch((*scan)->value());
    last = key;
    ++shown;
    FUZZ_CHECK(options.limit == 0 || shown <= options.limit);
    FUZZ_CHECK(ReadScanToken((*scan)->resume_token()).has_value());
  }
  FUZZ_CHECK(!(*scan)->Next());
}

void CheckWatch(Client& client, const WatchOptions& options) {
  auto watch = client.Watch(options);
  if (!watch.ok()) return;
  std::uint64_t next = 0;
  for (int failures = 0; failures < 3;) {
    const auto came = (*watch)->Next(std::chrono::milliseconds(0));
    FUZZ_CHECK(ReadChangeToken((*watch)->resume_token()).has_value());
    if (!came.ok() || !*came) {
      ++failures;
      continue;
    }
    FUZZ_CHECK((*watch)->sequence() >= next);
    next = (*watch)->sequence() + 1;
    FUZZ_CHECK(next != 0);
    const std::string_view key = (*watch)->key();
    FUZZ_CHECK(key.size() >= kMinKeySize && key.size() <= kMaxKeySize && key.starts_with(options.prefix));
    const bool is_put = (*watch)->kind() == ChangeKind::kPut;
    FUZZ_CHECK(is_put || ((*watch)->kind() == ChangeKind::kDelete && (*watch)->value().empty()));
    FUZZ_CHECK(is_put ? (*watch)->version() > 0 && (*watch)->version() < kMaxVersion
                      : (*watch)->version() == 0);
    Touch((*watch)->value());
  }
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const auto how = input.Take<std::uint8_t>();
  const bool is_watch = (how & 1) != 0;
  Pages pages(input, is_watch);
  Superblock superblock = HonestSuperblock(kMemorySize);
  const HostileServer::Script script{
      .hello = HonestHello(kMemorySize),
      .read =
          [&](std::uint64_t offset, std::span<std::byte> to) {
            std::ranges::fill(to, std::byte{0});
            // While there are pages, there are changes.
            superblock.counters[static_cast<std::size_t>(Metric::kChangesEnd)] =
                pages.is_over() ? 0 : ~std::uint64_t{0};
            ReadOver(AsBytes(superblock), 0, offset, to);
          },
      .answer = [&](std::string_view message,
                    std::span<std::byte> window) { return pages.Answer(message, window); }};
  const FuzzClock clock;
  auto client = Client::Connect(std::make_unique<HostileServer>(script, clock),
                                {.timeout = std::chrono::milliseconds(200),
                                 .location_cache_bytes = 0,
                                 .scan_window_bytes = 2 * kMinPageSize,
                                 .reconnect = false},
                                clock);
  FUZZ_CHECK(client.ok());
  if (is_watch) {
    CheckWatch(**client, {.prefix = (how & 2) != 0 ? "k1" : ""});
  } else {
    const bool any_order = (how & 12) == 12;
    CheckScan(**client, {.prefix = (how & 2) != 0 ? "k1" : "",
                         .reverse = (how & 4) != 0 && !any_order,
                         .any_order = any_order,
                         .limit = (how & 16) != 0 ? 3u : 0u,
                         .keys_only = (how & 32) != 0,
                         .one_moment = (how & 64) != 0 && !any_order});
  }
  return 0;
}
