#include "rdma/auth/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <vector>

#include "store/base/check.h"

namespace remora::rdma {

Mac HmacSha256(absl::string_view secret, std::span<const std::span<const std::byte>> parts) {
  std::vector<unsigned char> whole;
  for (const std::span<const std::byte> part : parts) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(part.data());
    whole.insert(whole.end(), bytes, bytes + part.size());
  }
  Mac mac;
  unsigned int size = 0;
  // Fails only where OpenSSL was built without SHA-256, or there is no memory.
  REMORA_CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), whole.data(), whole.size(),
                    reinterpret_cast<unsigned char*>(mac.data()), &size) != nullptr &&
               size == mac.size());
  return mac;
}

bool AreSameBytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void FillRandom(std::span<std::byte> bytes) {
  REMORA_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) ==
               1);
}

}  // namespace remora::rdma
