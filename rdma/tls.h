// TLS 1.3 for tls:// addresses: the certificates and tokens of either end.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/mutex.h"

namespace remora::rdma {

class TlsContext;

/// Names of files in PEM format. Empty: there is none.
struct TlsFiles {
  std::string ca;    // certificates of the authorities that sign the certificates of peers
  std::string cert;  // the own certificate, and behind it those between it and the authority
  std::string key;   // its private key, in a file that others cannot read

  /// Returns whether there is no file.
  bool empty() const { return ca.empty() && cert.empty() && key.empty(); }
};

/// The means of a client to connect to tls:// addresses. With `files.ca` it verifies the server's
/// certificate, and shows its own, if it has one. Without, it needs the secret of an auth token, from which
/// both sides derive a pre-shared key (PSK; RFC 8446, 2.2).
struct ClientTls {
  TlsFiles files;
  std::string secret;
};

/// Returns whether the client can use these means. Reads no file.
/// - InvalidArgument: `cert` without `key` or without `ca`, or `key` without `cert`.
absl::Status CheckTlsFiles(const TlsFiles& files);

/// The certificate and the pre-shared keys of a server. Its listeners use it, and the server replaces its
/// content while they serve; connections that exist do not change.
///
/// A client is admitted by one of two:
///   - A certificate of the server, if there are files. With `ca`, clients must show a certificate, too.
///   - A pre-shared key, for each secret of an auth token. With `ca` there are none: a token is no
///     certificate.
///
/// Thread safety: any thread may call any function.
class ServerTls {
 public:
  /// Reads the files. Errors, which name the file:
  /// - NotFound; PermissionDenied: it cannot be read, or it is the key and others can read it.
  /// - InvalidArgument: a file is missing (CheckTlsFiles), or has no certificate or key, or the key is not
  ///   that of the certificate.
  static absl::StatusOr<std::shared_ptr<ServerTls>> Create(TlsFiles files);
  ServerTls(const ServerTls&) = delete;
  ServerTls& operator=(const ServerTls&) = delete;

  /// Reads the files anew, and uses them and the secrets of these auth tokens. Errors as Create; then all
  /// stays as it was.
  absl::Status Load(const std::vector<std::string>& secrets);

  /// Returns whether Create was given files.
  bool has_files() const { return !files_.empty(); }
  /// Returns whether clients must show a certificate.
  bool asks_for_certificates() const { return !files_.ca.empty(); }
  /// Returns the context for the next connection. A connection keeps its own, also after Load.
  std::shared_ptr<const TlsContext> context() const;

 private:
  explicit ServerTls(TlsFiles files) : files_(std::move(files)) {}

  const TlsFiles files_;
  mutable Mutex mutex_;
  std::shared_ptr<const TlsContext> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora::rdma
