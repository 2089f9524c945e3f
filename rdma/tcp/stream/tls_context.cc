#include "rdma/tcp/stream/tls_context.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rdma/auth/secret_file.h"
#include "rdma/unique_fd.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// A PSK is bound to a hash, and both of these suites have SHA-256. All TLS 1.3 peers have the first.
constexpr char kTlsSuites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::array<unsigned char, 2> kTlsPskSuite = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr std::size_t kMaxPemSize = std::size_t{1} << 20;

template <auto kFree>
struct TlsFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using TlsBio = std::unique_ptr<BIO, TlsFree<BIO_free_all>>;
using TlsCertificate = std::unique_ptr<X509, TlsFree<X509_free>>;
using TlsKey = std::unique_ptr<EVP_PKEY, TlsFree<EVP_PKEY_free>>;
using TlsSession = std::unique_ptr<SSL_SESSION, TlsFree<SSL_SESSION_free>>;

absl::Status NoTlsMemory() { return absl::ResourceExhaustedError("TLS: there is no memory for it"); }

absl::Status Named(const absl::Status& status, absl::string_view what, const std::string& path) {
  return absl::Status(status.code(), absl::StrCat(what, " in ", path, ": ", status.message()));
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // not to wait for a pipe
  if (!fd) return absl::ErrnoToStatus(errno, "cannot be opened");
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return absl::ErrnoToStatus(errno, "fstat");
  if (!S_ISREG(file.st_mode)) return absl::InvalidArgumentError("it is no regular file");
  std::string text;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t size = ::read(fd.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return absl::ErrnoToStatus(errno, "read");
    if (size == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(size));
    if (text.size() > kMaxPemSize) return absl::InvalidArgumentError("it is too large for certificates");
  }
}

TlsBio BioOf(const std::string& text) {
  return TlsBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Returns all certificates of the file, at least one.
absl::StatusOr<std::vector<TlsCertificate>> ReadCertificates(const std::string& path) {
  REMORA_ASSIGN_OR_RETURN(const std::string text, ReadPem(path));
  const TlsBio bio = BioOf(text);
  if (bio == nullptr) return NoTlsMemory();
  std::vector<TlsCertificate> certificates;
  for (;;) {
    TlsCertificate one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (one == nullptr) break;
    certificates.push_back(std::move(one));
  }
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  const bool is_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (certificates.empty() || !is_end) {
    return absl::InvalidArgumentError(certificates.empty() ? "it has no certificate in PEM format"
                                                           : "one of its certificates is damaged");
  }
  return certificates;
}

// Without this, OpenSSL would ask for the passphrase at the terminal.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<TlsKey> ReadKey(const std::string& path) {
  REMORA_ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path));
  const TlsBio bio = BioOf(text);
  if (bio == nullptr) return NoTlsMemory();
  bool is_encrypted = false;
  TlsKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, &is_encrypted));
  ERR_clear_error();
  if (is_encrypted) {
    return absl::InvalidArgumentError(
        "it is encrypted; store it without a passphrase, in a file that only its user reads");
  }
  if (key == nullptr) return absl::InvalidArgumentError("it has no private key in PEM format");
  return key;
}

absl::Status UseCertificate(SSL_CTX* context, const TlsFiles& files) {
  auto certificates = ReadCertificates(files.cert);
  if (!certificates.ok()) return Named(certificates.status(), "TLS certificate", files.cert);
  auto key = ReadKey(files.key);
  if (!key.ok()) return Named(key.status(), "TLS key", files.key);
  if (SSL_CTX_use_certificate(context, certificates->front().get()) != 1) {
    ERR_clear_error();
    return Named(
        absl::InvalidArgumentError("its key is too weak for OpenSSL; use a certificate with a larger key"),
        "TLS certificate", files.cert);
  }
  for (std::size_t i = 1; i < certificates->size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, (*certificates)[i].get()) != 1) return NoTlsMemory();
  }
  if (SSL_CTX_use_PrivateKey(context, key->get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    ERR_clear_error();
    return Named(
        absl::InvalidArgumentError(absl::StrCat("it is not the key of the certificate in ", files.cert)),
        "TLS key", files.key);
  }
  return absl::OkStatus();
}

absl::Status UseAuthorities(SSL_CTX* context, const std::string& path, bool is_server) {
  auto certificates = ReadCertificates(path);
  if (!certificates.ok()) return Named(certificates.status(), "TLS authorities", path);
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  for (const TlsCertificate& one : *certificates) {
    if (X509_STORE_add_cert(store, one.get()) != 1) return NoTlsMemory();
    // Tells clients which of their certificates is asked for.
    if (is_server && SSL_CTX_add_client_CA(context, one.get()) != 1) return NoTlsMemory();
  }
  return absl::OkStatus();
}

TlsSession SessionOf(SSL* ssl, const TlsPsk& psk) {
  TlsSession session(SSL_SESSION_new());
  const SSL_CIPHER* const suite = SSL_CIPHER_find(ssl, kTlsPskSuite.data());
  if (session == nullptr || suite == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), reinterpret_cast<const unsigned char*>(psk.key.data()),
                                  psk.key.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), suite) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return session;
}

char kUnknownPsk = 0;  // a handshake refers to it whose client has offered an unknown key

const TlsContext& ContextOf(SSL* ssl) {
  return *static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

int UsePsk(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* size,
           SSL_SESSION** session) {
  *session = nullptr;
  *identity = nullptr;
  *size = 0;
  if (hash != nullptr && !EVP_MD_is_a(hash, "SHA256")) return 1;
  const TlsPsk& psk = ContextOf(ssl).psk();
  TlsSession made = SessionOf(ssl, psk);
  if (made == nullptr) return 0;
  *identity = reinterpret_cast<const unsigned char*>(psk.identity.data());
  *size = psk.identity.size();
  *session = made.release();
  return 1;
}

int FindPskSession(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  *session = nullptr;
  const TlsPsk* const psk = ContextOf(ssl).FindPsk({reinterpret_cast<const char*>(identity), size});
  if (psk == nullptr) {
    SSL_set_app_data(ssl, &kUnknownPsk);
    return 1;  // the server goes on with its certificate, if it has one
  }
  *session = SessionOf(ssl, *psk).release();
  return *session != nullptr ? 1 : 0;
}

}  // namespace

TlsPsk PskOf(std::string_view secret) {
  const auto mac = [&](std::string_view label) {
    const std::span<const std::byte> part = std::as_bytes(std::span(label));
    return HmacSha256(AbslView(secret), std::span(&part, 1));
  };
  // Proofs of the token are MACs of the same secret. They begin with other bytes than these labels.
  const Mac identity = mac("remora tls 1.3 psk identity");
  return {.identity = absl::BytesToHexString(
              absl::string_view(reinterpret_cast<const char*>(identity.data()), identity.size() / 2)),
          .key = mac("remora tls 1.3 psk key")};
}

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.cert.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(
        "TLS: a certificate and its key come together (tls_cert and tls_key); one of them is missing");
  }
  return absl::OkStatus();
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

absl::StatusOr<std::shared_ptr<TlsContext>> TlsContext::Make(bool is_server) {
  SSL_CTX* const context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
  if (context == nullptr) return NoTlsMemory();
  std::shared_ptr<TlsContext> made(new TlsContext(context, is_server));
  SSL_CTX_set_app_data(context, made.get());
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, kTlsSuites) != 1 || SSL_CTX_set_num_tickets(context, 0) != 1) {
    ERR_clear_error();
    return absl::InternalError(
        "TLS: this OpenSSL has no TLS 1.3, or not its cipher suites; install another version");
  }
  return made;
}

absl::Status TlsContext::ReadFiles(const TlsFiles& files) {
  REMORA_RETURN_IF_ERROR(CheckTlsFiles(files));
  if (!files.cert.empty()) REMORA_RETURN_IF_ERROR(UseCertificate(context_, files));
  if (files.ca.empty()) return absl::OkStatus();
  REMORA_RETURN_IF_ERROR(UseAuthorities(context_, files.ca, is_server_));
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

void TlsContext::AddPsk(std::string_view secret) {
  TlsPsk psk = PskOf(secret);
  std::string identity = psk.identity;
  psks_.insert_or_assign(std::move(identity), std::move(psk));
}

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::OfServer(const TlsFiles& files,
                                                                       std::span<const std::string> secrets) {
  REMORA_ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> made, Make(true));
  if (!files.ca.empty() && files.cert.empty()) {
    return absl::InvalidArgumentError(
        "TLS: a server that asks clients for certificates (tls_ca) has one of its own (tls_cert, tls_key)");
  }
  REMORA_RETURN_IF_ERROR(made->ReadFiles(files));
  if (files.ca.empty()) {
    for (const std::string& secret : secrets) made->AddPsk(secret);
  }
  SSL_CTX_set_psk_find_session_callback(made->context_, FindPskSession);
  return made;
}

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::OfClient(const ClientTls& tls) {
  if (tls.files.ca.empty() && !tls.files.cert.empty()) {
    return absl::InvalidArgumentError(
        "TLS: a client with a certificate (tls_cert) verifies the server's: say by which authorities "
        "(tls_ca)");
  }
  if (tls.files.ca.empty() && tls.secret.empty()) {
    return absl::InvalidArgumentError(
        "connect: a tls:// address needs an auth token (token, --token_file), or the authorities that have "
        "signed the server's certificate (tls_ca, --tls_ca)");
  }
  REMORA_ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> made, Make(false));
  REMORA_RETURN_IF_ERROR(made->ReadFiles(tls.files));
  if (tls.files.ca.empty()) {
    made->uses_psk_ = true;
    made->AddPsk(tls.secret);
    SSL_CTX_set_psk_use_session_callback(made->context_, UsePsk);
    // No authority is known, so a server that answers with a certificate is rejected.
    SSL_CTX_set_verify(made->context_, SSL_VERIFY_PEER, nullptr);
  }
  return made;
}

const TlsPsk* TlsContext::FindPsk(std::string_view identity) const {
  const auto found = psks_.find(identity);
  return found == psks_.end() ? nullptr : &found->second;
}

bool TlsContext::HasUnknownPsk(const ssl_st* ssl) { return SSL_get_app_data(ssl) == &kUnknownPsk; }

// --- ServerTls --------------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Create(TlsFiles files) {
  std::shared_ptr<ServerTls> tls(new ServerTls(std::move(files)));
  REMORA_RETURN_IF_ERROR(tls->Load({}));
  return tls;
}

absl::Status ServerTls::Load(const std::vector<std::string>& secrets) {
  REMORA_ASSIGN_OR_RETURN(std::shared_ptr<const TlsContext> loaded, TlsContext::OfServer(files_, secrets));
  const MutexLock lock(mutex_);
  context_ = std::move(loaded);
  return absl::OkStatus();
}

std::shared_ptr<const TlsContext> ServerTls::context() const {
  const MutexLock lock(mutex_);
  return context_;
}

}  // namespace remora::rdma
