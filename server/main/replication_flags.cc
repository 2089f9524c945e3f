#include "server/main/replication_flags.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "server/connection/auth_tokens.h"
#include "server/main/listen_checks.h"
#include "store/base/status_macros.h"
#include "store/format/memory/lease_line.h"
#include "store/format/types/duration_text.h"

namespace remora {
namespace {

constexpr std::size_t kMaxFollowers = 64;  // each has a thread
constexpr std::size_t kMinReplicationBuffer = std::size_t{1} << 20;
constexpr std::size_t kMaxReplicationBuffer = std::size_t{64} << 30;

/// Returns the fault of a lease time; empty: it has none.
std::string FaultOfLeaseTime(const std::string& text) {
  std::string why;
  const std::optional<std::chrono::milliseconds> time = ParseTtl(text, &why);
  if (!time) return why;
  return *time < kMinLeaseTime || *time > kMaxLeaseTime ? "it is from 200ms to 10s" : std::string();
}

}  // namespace

void AddReplicationFlags(command_line::CommandLine& line, Flags* flags) {
  line.Add("--replicate_to", flags->replicate_to,
           "Address of a follower, which gets all writes before they are answered; may be repeated. The "
           "server serves no clients before all followers have its data, and writes wait while one is "
           "away. With --follow: for the time after a promotion")
      .Check([](const std::string& text) { return std::string(rdma::ParseAddress(text).status().message()); })
      .TypeName("ADDRESS");
  line.AddFlag(
      "--follow", flags->server.replication.follows,
      "Follow a primary, which has this server's address in its --replicate_to: take its writes, and "
      "no clients, until `kvctl promote`");
  line.Add("--replication_token_file", flags->replication_token_file,
           "The auth token with which the server is a client of its followers, of the role replication")
      .TypeName("FILE");
  line.Add("--replication_tls_ca", flags->replication_tls.ca,
           "For followers at tls:// addresses, the authorities of their certificates (PEM). Without, the "
           "token gives the keys of TLS")
      .TypeName("FILE");
  line.Add("--replication_buffer", flags->replication_buffer,
           "Memory for writes that not all followers have. While they have more, further writes are rejected")
      .Size()
      .ShowDefault()
      .TypeName("SIZE");
  line.Add("--copy_rate", flags->server.replication.copy_rate,
           "With --etcd: bytes per second at which a primary sends a copy of its data to a member that "
           "cannot go on from its own; 0: as fast as it can")
      .Size()
      .ShowDefault()
      .TypeName("SIZE");
  line.Add("--lease_time", flags->lease_time,
           "A follower is promoted no sooner than this after its last answer to its primary. Clients of a "
           "primary read for three quarters of it without asking. The same for all servers; from 200ms to "
           "10s")
      .Check(FaultOfLeaseTime)
      .ShowDefault()
      .TypeName("DURATION");
}

absl::Status TakeReplication(Flags* flags) {
  ReplicationOptions& replication = flags->server.replication;
  if (flags->replicate_to.size() > kMaxFollowers) {
    return absl::InvalidArgumentError(absl::StrCat("--replicate_to: ", flags->replicate_to.size(),
                                                   " followers are given, and ", kMaxFollowers,
                                                   " is the most; leave some out"));
  }
  for (const std::string& text : flags->replicate_to) {
    REMORA_ASSIGN_OR_RETURN(rdma::Address address, rdma::ParseAddress(text));
    for (const rdma::Address& own : flags->listen) {
      if (!IsSameAddress(address, own)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--replicate_to=", text, ": is an address of this server; name one of a follower"));
    }
    for (const FollowerAddress& other : replication.followers) {
      if (!IsSameAddress(address, other.address)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--replicate_to=", text, ": is given twice; leave one out"));
    }
    replication.followers.push_back(
        {.address = std::move(address), .secret = {}, .tls = flags->replication_tls});
  }
  const bool is_client = !replication.followers.empty() || !flags->cluster.etcd.store.endpoints.empty();
  if (!is_client && (!flags->replication_token_file.empty() || !flags->replication_tls.ca.empty())) {
    return absl::InvalidArgumentError(
        "--replication_token_file, --replication_tls_ca: the server has no followers; add --replicate_to, or "
        "leave "
        "them out");
  }
  if (!is_client && flags->replication_buffer != Flags().replication_buffer) {
    return absl::InvalidArgumentError(
        "--replication_buffer: the server has no followers; add --replicate_to or --etcd, or leave it out");
  }
  if (flags->replication_buffer < kMinReplicationBuffer ||
      flags->replication_buffer > kMaxReplicationBuffer) {
    return absl::InvalidArgumentError("--replication_buffer: it is from 1 MiB to 64 GiB");
  }
  replication.max_pending_bytes = flags->replication_buffer;
  std::string why;
  replication.lease_time = ParseTtl(flags->lease_time, &why).value_or(kDefaultLeaseTime);
  if (replication.is_on() && flags->server.store.commit_log_bytes == 0) {
    return absl::InvalidArgumentError(
        "--follow and --replicate_to need a commit log: leave out --commit_log=off, and choose "
        "--durability=logged or synced");
  }
  return absl::OkStatus();
}

absl::Status ReadReplicationToken(Flags* flags) {
  if (flags->replication_token_file.empty()) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(const std::vector<Token> tokens, ReadTokens(flags->replication_token_file));
  if (tokens.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("tokens in ", flags->replication_token_file,
                                                   ": a primary has one token; leave one line"));
  }
  for (FollowerAddress& to : flags->server.replication.followers) to.secret = tokens[0].secret;
  return absl::OkStatus();
}

}  // namespace remora
