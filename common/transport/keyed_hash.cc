#include "common/transport/keyed_hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

namespace muster {
namespace {

constexpr size_t kHashBytes = 32;

}  // namespace

std::string KeyedHash(absl::string_view secret, absl::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  // An empty key must not be a null pointer, which means the key of the call before.
  const char* const key = secret.empty() ? "" : secret.data();
  HMAC(EVP_sha256(), key, static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash, &length);
  std::string result(reinterpret_cast<const char*>(hash), length);
  // The hash may be a key.
  OPENSSL_cleanse(hash, sizeof(hash));
  return result;
}

bool SameHash(absl::string_view one, absl::string_view other) {
  return one.size() == kHashBytes && other.size() == kHashBytes &&
         CRYPTO_memcmp(one.data(), other.data(), kHashBytes) == 0;
}

std::string RandomBytes(size_t bytes) {
  std::string random(bytes, '\0');
  // Up to 256 bytes, getrandom gives all or is interrupted.
  while (getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
  }
  return random;
}

}  // namespace muster
