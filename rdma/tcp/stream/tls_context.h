// The common part of all TLS connections of one end: an SSL_CTX, and the pre-shared keys.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/auth/hmac.h"
#include "rdma/tls.h"

struct ssl_ctx_st;  // SSL_CTX
struct ssl_st;      // SSL

namespace remora::rdma {

/// A pre-shared key, which both sides derive from the secret of an auth token. The identity goes over the
/// wire in the clear. It is a MAC, which tells nothing of the secret or of the key.
struct TlsPsk {
  std::string identity;
  Mac key;
};
TlsPsk PskOf(std::string_view secret);

/// TLS 1.3 alone, with forward secrecy; no tickets, no resumption and no early data.
///
/// Thread safety: const functions may be called by any thread.
class TlsContext {
 public:
  /// Errors as ServerTls::Create. `secrets` are ignored if files.ca is not empty.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> OfServer(const TlsFiles& files,
                                                                    std::span<const std::string> secrets);
  /// Errors as ServerTls::Create, and InvalidArgument: neither a `ca` nor a secret.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> OfClient(const ClientTls& tls);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  ssl_ctx_st* get() const { return context_; }
  bool is_server() const { return is_server_; }
  /// Returns whether the client uses its pre-shared key, and verifies no certificate.
  bool uses_psk() const { return uses_psk_; }
  /// Returns the pre-shared key with this identity; null: there is none.
  const TlsPsk* FindPsk(std::string_view identity) const;
  bool knows_psk() const { return !psks_.empty(); }
  /// Returns whether the client of this handshake has offered a pre-shared key that the server does not know.
  static bool HasUnknownPsk(const ssl_st* ssl);
  /// Returns the client's pre-shared key. REQUIRES: uses_psk().
  const TlsPsk& psk() const { return psks_.begin()->second; }

 private:
  TlsContext(ssl_ctx_st* context, bool is_server) : context_(context), is_server_(is_server) {}
  static absl::StatusOr<std::shared_ptr<TlsContext>> Make(bool is_server);
  absl::Status ReadFiles(const TlsFiles& files);
  void AddPsk(std::string_view secret);

  ssl_ctx_st* const context_;
  const bool is_server_;
  bool uses_psk_ = false;
  std::map<std::string, TlsPsk, std::less<>> psks_;  // by identity
};

}  // namespace remora::rdma
