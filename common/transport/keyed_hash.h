#ifndef MUSTER_COMMON_TRANSPORT_KEYED_HASH_H_
#define MUSTER_COMMON_TRANSPORT_KEYED_HASH_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

// Hashes with which handshakes prove the knowledge of a secret.
namespace muster {

// Returns the HMAC (RFC 2104) of `text` with SHA-256; 32 bytes.
std::string KeyedHash(absl::string_view secret, absl::string_view text);

// Returns whether two keyed hashes are equal, in a time that does not depend on where they differ.
bool SameHash(absl::string_view one, absl::string_view other);

// Returns random bytes that nobody can guess; at most 256.
std::string RandomBytes(size_t bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_KEYED_HASH_H_
