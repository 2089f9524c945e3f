#include "rdma/tcp/stream/tls_stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/shared_copy.h"
#include "rdma/tcp/stream/wire.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {

/// The BIO between OpenSSL and the two buffers of a stream.
struct TlsBuffers {
  static TlsStream& Of(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }

  static int Read(BIO* bio, char* to, std::size_t size, std::size_t* got) {
    TlsStream& stream = Of(bio);
    BIO_clear_retry_flags(bio);
    *got = std::min(size, stream.end_ - stream.begin_);
    if (*got == 0) {
      if (!stream.is_at_end_) BIO_set_retry_read(bio);
      return 0;
    }
    std::memcpy(to, stream.input_.data() + stream.begin_, *got);
    stream.begin_ += *got;
    return 1;
  }

  static int Write(BIO* bio, const char* from, std::size_t size, std::size_t* put) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(from);
    std::vector<std::byte>& output = Of(bio).output_;
    output.insert(output.end(), bytes, bytes + size);
    *put = size;
    return 1;
  }

  static long Control(BIO*, int command, long, void*) {
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_PUSH || command == BIO_CTRL_POP ? 1 : 0;
  }

  static int Create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }

  /// Returns null if there is no memory.
  static const BIO_METHOD* Method() {
    static const BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "remora buffers");
      if (made != nullptr) {
        BIO_meth_set_read_ex(made, Read);
        BIO_meth_set_write_ex(made, Write);
        BIO_meth_set_ctrl(made, Control);
        BIO_meth_set_create(made, Create);
      }
      return made;
    }();
    return method;
  }
};

namespace {

// The plaintext of the largest record.
constexpr std::size_t kTlsRecord = std::size_t{16} << 10;
// A record with its header, padding and tag (RFC 8446, 5.2).
constexpr std::size_t kTlsInput = kTlsRecord + 5 + 256;
// Send encrypts no more once so many bytes wait for the socket.
constexpr std::size_t kTlsMaxOutput = std::size_t{64} << 10;
// A buffer that is larger than this is given back when it is empty.
constexpr std::size_t kTlsKeptOutput = std::size_t{17} << 10;

bool IsIpAddress(const std::string& host) {
  in6_addr any;
  return inet_pton(AF_INET, host.c_str(), &any) == 1 || inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

absl::Status NoMemoryForTls() { return absl::ResourceExhaustedError("TLS: there is no memory for it"); }

/// Returns OpenSSL's words for the last error of this thread.
absl::string_view ReasonOf(unsigned long error) {
  const char* const reason = ERR_reason_error_string(error);
  return reason == nullptr ? "the handshake failed" : reason;
}

/// Returns whether the error is an alert that the peer has sent.
bool IsAlert(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET;
}

}  // namespace

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context) : context_(std::move(context)) {}

TlsStream::~TlsStream() { SSL_free(ssl_); }

absl::StatusOr<std::unique_ptr<TlsStream>> TlsStream::OfServer(std::shared_ptr<const TlsContext> context) {
  REMORA_CHECK(context->is_server());
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context)));
  REMORA_RETURN_IF_ERROR(stream->Begin());
  SSL_set_accept_state(stream->ssl_);
  return stream;
}

absl::StatusOr<std::unique_ptr<TlsStream>> TlsStream::OfClient(std::shared_ptr<const TlsContext> context,
                                                               const std::string& host) {
  REMORA_CHECK(!context->is_server());
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context)));
  stream->host_ = host;
  REMORA_RETURN_IF_ERROR(stream->Begin());
  SSL_set_connect_state(stream->ssl_);
  if (stream->context_->uses_psk()) return stream;
  // Only alternative names count (RFC 6125), and a wildcard stands for a whole label.
  SSL_set_hostflags(stream->ssl_, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool is_set = IsIpAddress(host)
                          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(stream->ssl_), host.c_str()) == 1
                          : SSL_set1_host(stream->ssl_, host.c_str()) == 1 &&
                                SSL_set_tlsext_host_name(stream->ssl_, host.c_str()) == 1;
  if (!is_set) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat("TLS: no certificate can be valid for the host ", host));
  }
  return stream;
}

absl::Status TlsStream::Begin() {
  if (TlsBuffers::Method() == nullptr) return NoMemoryForTls();
  ssl_ = SSL_new(context_->get());
  BIO* const bio = BIO_new(TlsBuffers::Method());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    ERR_clear_error();
    return NoMemoryForTls();
  }
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_, bio, bio);  // owns it
  return absl::OkStatus();
}

// --- The handshake ----------------------------------------------------------------------------------

TlsStream::Step TlsStream::Handshake(int socket) {
  for (;;) {
    if (!error_.ok()) return Step::kFailed;
    if (const int error = Flush(socket); error != 0) {
      return Fail(absl::UnavailableError(absl::StrCat("TLS: ", std::strerror(error))));
    }
    if (has_output()) return Step::kWaits;
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    if (result == 1) {
      // A handshake without the pre-shared key would have failed at the certificate.
      if (context_->uses_psk() && SSL_session_reused(ssl_) != 1) {
        return Fail(absl::PermissionDeniedError("TLS: the server did not use the token"));
      }
      is_established_ = true;
      Flush(socket);  // Send reports a failure
      return Step::kDone;
    }
    const bool wants_more = SSL_get_error(ssl_, result) == SSL_ERROR_WANT_READ;
    if (!wants_more) {
      absl::Status why = HandshakeError();
      Flush(socket);  // the alert
      return Fail(std::move(why));
    }
    if (has_output()) continue;
    const ssize_t got = FillInput(socket, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Step::kWaits;
    return Fail(absl::UnavailableError("TLS: the peer hung up during the handshake"));
  }
}

TlsStream::Step TlsStream::Fail(absl::Status why) {
  if (error_.ok()) error_ = std::move(why);
  ERR_clear_error();
  return Step::kFailed;
}

absl::Status TlsStream::HandshakeError() const {
  const unsigned long error = ERR_peek_last_error();
  if (context_->is_server()) return ServersHandshakeError();
  if (first_count_ == sizeof(first_bytes_) && first_bytes_ == kTcpMagic) {
    return absl::InvalidArgumentError("it serves without TLS: connect to its tcp:// address");
  }
  if (context_->uses_psk() && (IsAlert(error) || SSL_get_verify_result(ssl_) != X509_V_OK)) {
    return absl::PermissionDeniedError(
        "TLS: the server does not know this client's token, or takes no tokens for TLS: then give the client "
        "the authorities of its certificate (tls_ca)");
  }
  if (const long verified = SSL_get_verify_result(ssl_); verified != X509_V_OK) {
    const bool is_name =
        verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH;
    return absl::PermissionDeniedError(
        absl::StrCat("TLS: the server's certificate is not accepted: ",
                     is_name ? absl::StrCat("it is not for ", host_,
                                            " (subjectAltName); connect to a name or address that it has")
                             : X509_verify_cert_error_string(verified)));
  }
  if (IsAlert(error)) {
    const bool has_certificate = ERR_GET_REASON(error) != SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE;
    return absl::PermissionDeniedError(
        absl::StrCat("TLS: the server rejected the client: ", ReasonOf(error),
                     has_certificate ? "" : "; it may have no certificate, and take tokens alone"));
  }
  return absl::UnavailableError(absl::StrCat("TLS: it is no Remora server with TLS 1.3: ", ReasonOf(error)));
}

absl::Status TlsStream::ServersHandshakeError() const {
  const unsigned long error = ERR_peek_last_error();
  const bool has_certificate = SSL_CTX_get0_certificate(context_->get()) != nullptr;
  const absl::string_view of_token =
      TlsContext::HasUnknownPsk(ssl_) ? "; it began with a token that is not known here" : "";
  if (IsAlert(error)) {
    return absl::UnavailableError(absl::StrCat("TLS: the client gave up: ", ReasonOf(error), of_token));
  }
  if (has_certificate || !context_->knows_psk() || ERR_GET_REASON(error) == SSL_R_UNSUPPORTED_PROTOCOL) {
    return absl::PermissionDeniedError(absl::StrCat("TLS: ", ReasonOf(error), of_token));
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "TLS: ", ReasonOf(error),
      of_token.empty() ? "; it came without a token, and this server has no certificate" : of_token));
}

// --- Data -------------------------------------------------------------------------------------------

ssize_t TlsStream::Send(int socket, std::span<const iovec> from) {
  if (!error_.ok()) {
    errno = EPROTO;
    return -1;
  }
  if (const int error = Flush(socket); error != 0 || has_output()) {
    errno = error != 0 ? error : EAGAIN;
    return -1;
  }
  std::array<std::byte, kTlsRecord> record;
  std::size_t filled = 0;
  std::size_t taken = 0;
  for (const iovec& entry : from) {
    const auto* bytes = static_cast<const std::byte*>(entry.iov_base);
    for (std::size_t left = entry.iov_len; left > 0;) {
      if (output_.size() >= kTlsMaxOutput) break;
      const std::size_t size = std::min(left, record.size() - filled);
      // By O3 of transport.h, the server may write the bytes meanwhile.
      CopyShared(record.data() + filled, bytes, size);
      bytes += size;
      left -= size;
      filled += size;
      if (filled < record.size()) continue;
      if (!Encrypt(record.data(), filled)) return -1;
      taken += std::exchange(filled, 0);
    }
  }
  if (filled > 0 && !Encrypt(record.data(), filled)) return -1;
  taken += filled;
  if (const int error = Flush(socket); error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<ssize_t>(taken);
}

bool TlsStream::Encrypt(const std::byte* from, std::size_t size) {
  std::size_t written = 0;
  ERR_clear_error();
  if (SSL_write_ex(ssl_, from, size, &written) == 1 && written == size) return true;
  Fail(absl::InternalError(absl::StrCat("TLS: ", ReasonOf(ERR_peek_last_error()))));
  errno = EPROTO;
  return false;
}

int TlsStream::Flush(int socket) {
  while (has_output()) {
    const ssize_t sent =
        send(socket, output_.data() + sent_, output_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno;
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  output_.clear();
  sent_ = 0;
  if (output_.capacity() > kTlsKeptOutput) output_.shrink_to_fit();
  return 0;
}

ssize_t TlsStream::FillInput(int socket, int flags) {
  REMORA_CHECK(begin_ == end_);
  input_.resize(kTlsInput);
  begin_ = end_ = 0;
  const ssize_t got = recv(socket, input_.data(), input_.size(), flags);
  if (got <= 0) return got;
  end_ = static_cast<std::size_t>(got);
  if (const std::size_t more = std::min(end_, sizeof(first_bytes_) - first_count_); more > 0) {
    std::memcpy(reinterpret_cast<std::byte*>(&first_bytes_) + first_count_, input_.data(), more);
    first_count_ += more;
  }
  return got;
}

bool TlsStream::has_input() const { return begin_ < end_ || SSL_pending(ssl_) > 0 || !error_.ok(); }

ssize_t TlsStream::Decrypt(void* to, std::size_t size) {
  std::size_t got = 0;
  if (SSL_read_ex(ssl_, to, size, &got) == 1) return static_cast<ssize_t>(got);
  switch (SSL_get_error(ssl_, 0)) {
    case SSL_ERROR_WANT_READ:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    default:
      break;
  }
  const unsigned long error = ERR_peek_last_error();
  if (is_at_end_) return 0;
  // A server learns only after the client's part of the handshake that it does not accept its certificate.
  const absl::string_view peer = context_->is_server() ? "client" : "server";
  Fail(IsAlert(error)
           ? absl::PermissionDeniedError(absl::StrCat("TLS: the ", peer, " gave up: ", ReasonOf(error)))
           : absl::InternalError(
                 absl::StrCat("TLS: the bytes of the ", peer, " are damaged: ", ReasonOf(error))));
  errno = EPROTO;
  return -1;
}

ssize_t TlsStream::Receive(int socket, std::span<const iovec> to, int flags) {
  if (!error_.ok()) {
    errno = EPROTO;
    return -1;
  }
  ERR_clear_error();
  std::size_t total = 0;
  bool has_received = false;
  for (const iovec& entry : to) {
    for (std::size_t done = 0; done < entry.iov_len;) {
      const ssize_t got = Decrypt(static_cast<std::byte*>(entry.iov_base) + done, entry.iov_len - done);
      if (got > 0) {
        done += static_cast<std::size_t>(got);
        total += static_cast<std::size_t>(got);
        continue;
      }
      if (total > 0) return static_cast<ssize_t>(total);
      if (got == 0 || errno != EAGAIN || has_received) return got;
      const ssize_t filled = FillInput(socket, flags);
      if (filled < 0) return filled;
      is_at_end_ = filled == 0;
      has_received = true;
    }
  }
  return static_cast<ssize_t>(total);
}

}  // namespace remora::rdma
