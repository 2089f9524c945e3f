// Words of a server that a client takes as it connects, and then believes: the hello, the superblock, the
// directory, and the rest of the memory. Each of them may say anything. If the client believes them, they are
// in bounds; its calls end, and READ nothing but the memory that they were told of.
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "client/async_client.h"
#include "client/client.h"
#include "client/session/session.h"
#include "tests/fuzz/hostile_server.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

constexpr std::uint64_t kMemorySize = 64 * kSegmentSize;

/// Some words of a struct become what the input says. Returns whether they still are one: a hello may say
/// that it has a shard, and have none.
template <typename T>
bool ChangeWords(Input& input, T* value) {
  std::array<std::uint64_t, sizeof(T) / 8> words;
  std::memcpy(words.data(), value, sizeof(T));
  for (int changes = input.Take<std::uint8_t>() % 4; changes > 0; --changes) {
    const auto at = input.Take<std::uint8_t>() % words.size();
    words[at] = input.Take<std::uint64_t>();
  }
  return FromBytes(std::as_bytes(std::span(words)), value);
}

void Check(const Session& session, const HelloReply& hello) {
  const StoreShape& shape = session.server().shape();
  FUZZ_CHECK(shape.incarnation == hello.incarnation);
  FUZZ_CHECK(shape.memory_size <= hello.memory.size &&
             shape.memory_size <= (kMaxOffsetUnits + 1) * kUnitSize);
  FUZZ_CHECK(shape.base_depth <= kMaxDepth);
  FUZZ_CHECK(session.server().grace() >= std::chrono::milliseconds(kMinGraceMs));
  FUZZ_CHECK(session.channel().credits() >= 1 && session.channel().credits() <= RequestChannel::kMaxInFlight);
  FUZZ_CHECK(session.server().is_read_only() || session.server().staging().size >= kMaxPayloadSize);
}

/// Returns a superblock that may be in order; `how` says in what it agrees with the hello.
Superblock SuperblockOf(Input& input, std::uint8_t how, const HelloReply& hello) {
  Superblock superblock = HonestSuperblock(kMemorySize);
  superblock.level = superblock.base_depth = how >> 4;
  if ((how & 1) != 0) superblock.memory_size = hello.memory.size;
  if ((how & 2) != 0) superblock.incarnation = hello.incarnation;
  FUZZ_CHECK(ChangeWords(input, &superblock));
  return superblock;
}

/// Returns a server whose memory behind the superblock is `memory`, again and again; so are its replies.
HostileServer::Script ScriptOf(const HelloReply& hello, const Superblock& superblock, bool has_directory,
                               std::string_view memory) {
  return {.hello = hello,
          .read =
              [=](std::uint64_t offset, std::span<std::byte> to) {
                ReadRepeated(memory, offset, to);
                if (has_directory) {
                  // A directory that leads somewhere: of the first segment behind it.
                  const std::uint64_t entry =
                      EncodeDirectoryEntry(static_cast<std::uint32_t>(FirstSegment(superblock.memory_size)));
                  ReadOver(AsBytes(entry), DirectoryOffset(), offset, to);
                }
                ReadOver(AsBytes(superblock), 0, offset, to);
              },
          .answer = [memory, answered = std::make_shared<std::size_t>(0)](
                        std::string_view message, std::span<std::byte>) -> std::string {
            Reply reply;
            std::memcpy(&reply, memory.data(), std::min(memory.size(), sizeof(reply)));
            if (message.size() >= sizeof(Request) && ++*answered < 8) {
              std::memcpy(&reply.request_id, message.data(), sizeof(reply.request_id));
            }
            std::string bytes(reinterpret_cast<const char*>(&reply), sizeof(reply));
            return bytes += memory.substr(0, reply.behind_size);
          },
          .most_read = std::size_t{2} << 20};
}

void RunClient(const HostileServer::Script& script, const ClientOptions& options, const FuzzClock& clock,
               const std::string& key) {
  auto client = Client::Connect(std::make_unique<HostileServer>(script, clock), options, clock);
  FUZZ_CHECK(client.ok());
  std::string value;
  for (int i = 0; i < 2; ++i) (*client)->Get(key, &value).IgnoreError();
  (*client)->Put(key, "value").IgnoreError();
  const std::string other = key + "x";
  const std::string_view keys[] = {key, other};
  GetResult results[2];
  (*client)->MultiGet(keys, results).IgnoreError();
  (*client)->Put(key, std::string(kMaxSmallValueSize + 1, 'v')).IgnoreError();  // asks for memory first
  (*client)->Backup(1).status().IgnoreError();
  (*client)->Stats().status().IgnoreError();
  (*client)->Get(key, &value).IgnoreError();
}

void RunAsyncClient(const HostileServer::Script& script, const ClientOptions& options, const FuzzClock& clock,
                    const std::string& key) {
  auto client = AsyncClient::Connect(std::make_unique<HostileServer>(script, clock), options, {}, clock);
  FUZZ_CHECK(client.ok());
  int in_flight = 0;
  const auto done = [&](const AsyncResult&) { --in_flight; };
  for (int i = 0; i < 4; ++i) {
    in_flight += (*client)->Get(key + std::to_string(i / 2), done).ok() ? 1 : 0;
    in_flight += i == 1 && (*client)->Put(key, "value", done).ok() ? 1 : 0;
  }
  (*client)->WaitAll(clock.Now() + std::chrono::seconds(2)).IgnoreError();
  FUZZ_CHECK(in_flight == 0);
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const auto how = input.Take<std::uint8_t>();
  HelloReply hello = HonestHello(kMemorySize);
  if (!ChangeWords(input, &hello)) return 0;  // the client does not take it (handshake_fuzz.cc)
  const Superblock superblock = SuperblockOf(input, how, hello);
  const HostileServer::Script script = ScriptOf(hello, superblock, (how & 4) != 0, input.rest());
  const FuzzClock clock;
  const std::size_t mirror = size > 0 && data[size - 1] % 2 != 0 ? std::size_t{1} << 14 : 0;
  const ClientOptions options{.timeout = std::chrono::milliseconds(200),
                              .location_cache_bytes = 4096,
                              .index_mirror_bytes = mirror,
                              .scan_window_bytes = 0,
                              .reconnect = false};
  const auto session = Session::Start(std::make_unique<HostileServer>(script, clock), {}, options, clock);
  if (!session.ok()) return 0;
  Check(**session, hello);
  const std::string key = "key " + std::to_string(how >> 4);
  ((how & 8) == 0 ? RunClient : RunAsyncClient)(script, options, clock, key);
  return 0;
}
