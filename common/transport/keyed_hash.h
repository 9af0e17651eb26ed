#ifndef MUSTER_COMMON_TRANSPORT_KEYED_HASH_H_
#define MUSTER_COMMON_TRANSPORT_KEYED_HASH_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

// What handshakes prove the knowledge of a secret with.
namespace muster {

// HMAC (RFC 2104) with SHA-256 of `text`; 32 bytes.
std::string KeyedHash(absl::string_view secret, absl::string_view text);

// Whether two keyed hashes are the same, in a time that does not depend on where they differ.
bool SameHash(absl::string_view one, absl::string_view other);

// Not to be guessed. At most 256.
std::string RandomBytes(size_t bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_KEYED_HASH_H_
