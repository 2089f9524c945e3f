#include "tests/adversarial/attacks.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "store/base/check.h"
#include "tests/adversarial/raw_local.h"
#include "tests/adversarial/raw_verbs.h"
#include "tests/adversarial/tcp_attacks.h"

namespace remora {
namespace {

constexpr rdma::TransportKind kVerbs = rdma::TransportKind::kVerbs;
constexpr rdma::TransportKind kTcp = rdma::TransportKind::kTcp;

Request Ping(std::uint64_t id) {
  Request ping;
  ping.request_id = id;
  return ping;
}

// --- Instead of a hello
// -------------------------------------------------------------------------------------

void SayNonsense(const rdma::Address& where) {
  const std::string nonsense(40, 'n');
  for (int i = 0; i < (where.kind == kVerbs ? 2 : 20); ++i) {
    RawPeer::At(where)->Join(std::as_bytes(std::span(nonsense)));
  }
}

void ComeInACrowd(const rdma::Address& where) {
  std::vector<std::unique_ptr<RawPeer>> crowd;
  for (int i = 0; i < 2 * kAttackedClients; ++i) {
    crowd.push_back(RawPeer::At(where));
    if (!crowd.back()->Join(HelloRequest())) return;
  }
}

// As fast as it goes, and by the book.
void ComeAndGo(const rdma::Address& where) {
  for (int i = 0; i < (where.kind == kVerbs ? 2 : 20); ++i) RawPeer::At(where)->Join(HelloRequest());
}

void HangUp(const rdma::Address& where) {
  for (int i = 0; i < 100; ++i) RawPeer::At(where).reset();
}

// More than the listener keeps of such.
void SaySilence(const rdma::Address& where) {
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(RawPeer::At(where));
}

// As slowly as one likes: a greeting is one packet, so its first byte is its last.
void Drip(const rdma::Address& where) {
  RawLocal peer(where, true);
  const rdma::LocalHello hello;
  for (std::size_t i = 0; i < sizeof(hello); ++i) {
    peer.Say(reinterpret_cast<const char*>(&hello) + i, 1);
    if (peer.AwaitEnd(std::chrono::milliseconds(2))) return;
  }
}

void StopHalfWay(const rdma::Address& where) {
  const HelloRequest hello;
  std::array<std::unique_ptr<RawVerbs>, 3> half;
  for (auto& peer : half) {
    peer = std::make_unique<RawVerbs>(where, true);
    peer->JoinHalf(AsBytes(hello));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// --- Inside ---------------------------------------------------------------------------------------------

void SendWithoutCredit(const rdma::Address& where) {
  const auto peer = RawPeer::At(where);
  if (!peer->Join(HelloRequest())) return;
  for (std::uint64_t id = 1; id < 100'000; ++id) {
    if (!peer->Send(AsBytes(Ping(id)))) return;
  }
}

// Asks no faster than it would be answered, and takes no answer.
void BeDeaf(const rdma::Address& where) {
  const auto peer = RawPeer::At(where, /*takes_replies=*/false);
  if (!peer->Join(HelloRequest())) return;
  for (std::uint64_t id = 1; id < 1'000; ++id) {
    if (!peer->Send(AsBytes(Ping(id)))) return;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void StopInMidWrite(const rdma::Address& where) {
  const auto peer = RawPeer::At(where);
  if (!peer->Join(HelloRequest())) return;
  peer->Write(0, "half of a key and a val");
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void ForgeHeads(const rdma::Address& where) {
  const auto forge = [&](auto&& how) {
    RawLocal peer(where, true);
    if (!peer.Join(HelloRequest())) return;
    how(peer);
    peer.Wake();
    peer.AwaitEnd();
  };
  forge([](RawLocal& peer) { peer.own->slots()[0].head = rdma::LocalHead(1, rdma::kMaxMessageSize + 1); });
  forge([](RawLocal& peer) { peer.own->slots()[0].head = rdma::LocalHead(1, 0xffff); });
  // Long, of slots of which it has written one: no request is like that.
  forge([](RawLocal& peer) { peer.own->slots()[0].head = rdma::LocalHead(1, 600); });
}

void WakeWithoutEnd(const rdma::Address& where) {
  RawLocal peer(where, true);
  if (!peer.Join(HelloRequest())) return;
  for (int i = 0; i < 2'000; ++i) peer.Wake();
}

void GuessKeys(const rdma::Address& where) {
  RawVerbs peer(where, true);
  if (!peer.Join(HelloRequest())) return;
  const RemoteRegion staging = peer.hello().staging;
  static_cast<void>(peer.Do(IBV_WR_RDMA_WRITE, staging.address, staging.key ^ 0x3300, "evil"));
  // A peer that hangs up before the server has looked has hung up, and nothing else.
  peer.AwaitEnd();
}

// --- In a process of its own ----------------------------------------------------------------------------

/// Runs it until it says that it is ready, lets so much time pass, and kills it.
void RunPeer(const char* role, const rdma::Address& where, std::chrono::milliseconds time) {
  std::array<int, 2> ends{};
  REMORA_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::string program = REMORA_HOSTILE_PEER, argument = role, address = where.ToString();
  const std::array<char*, 4> arguments = {program.data(), argument.data(), address.data(), nullptr};
  pid_t pid = -1;
  REMORA_CHECK(posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char byte = 0;
  const bool is_ready = read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  if (is_ready) std::this_thread::sleep_for(time);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

void Freeze(const rdma::Address& where) { RunPeer("freeze", where, std::chrono::milliseconds(50)); }
void DieInMidStream(const rdma::Address& where) { RunPeer("stream", where, std::chrono::milliseconds(20)); }

void KeepBusy(const rdma::Address&) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

std::vector<Attack> AttacksOver(rdma::TransportKind kind) {
  std::vector<Attack> attacks = {{"nonsense as a hello", "refused_version", SayNonsense},
                                 {"a crowd", "refused_full", ComeInACrowd},
                                 {"comes and goes", "connections_accepted", ComeAndGo},
                                 {"stops in mid-write", "connections_accepted", StopInMidWrite},
                                 {"frozen with a grant", "connections_accepted", Freeze},
                                 {"killed in mid-stream", "connections_accepted", DieInMidStream}};
  // Over TCP the system keeps replies for who does not take them, more than this asks for.
  if (kind != kTcp) attacks.push_back({"takes no replies", "connections_broken", BeDeaf});
  if (kind == kVerbs) {
    attacks.push_back({"half-open handshakes", "connections_accepted", StopHalfWay});
    attacks.push_back({"guessed keys", "connections_broken", GuessKeys});
  } else {
    // Over verbs, the device itself makes who sends more than there are receives wait. A server that keeps up
    // has never more requests than the credits allow; test `Credits` has one that does not.
    attacks.push_back({"sends without credit", "connections_accepted", SendWithoutCredit});
    attacks.push_back({"hangs up", "handshakes_dropped", HangUp});
    attacks.push_back({"says nothing", "handshakes_dropped", SaySilence});
  }
  if (kind == rdma::TransportKind::kLocal) {
    attacks.push_back({"a byte at a time", "handshakes_dropped", Drip});
    attacks.push_back({"forged heads", "connections_broken", ForgeHeads});
    attacks.push_back({"wakes without end", "connections_accepted", WakeWithoutEnd});
  }
  if (kind == kTcp) {
    for (const Attack& attack : TcpAttacks()) attacks.push_back(attack);
  }
  attacks.push_back({"only a busy processor", nullptr, KeepBusy});
  return attacks;
}

}  // namespace remora
