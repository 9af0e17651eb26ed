#ifndef MUSTER_COMMON_BASE_CRC32C_H_
#define MUSTER_COMMON_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster {

// Returns the CRC-32C of bytes (Castagnoli's polynomial), as RFC 3720 defines it. For formats of
// others that have it; Muster's own take Fingerprint.
uint32_t Crc32c(absl::string_view bytes);

// Returns the CRC-32C as logs of RocksDB and TensorFlow's record files store it: rotated by 15 bits
// and shifted by a constant, so that bytes which hold checksums have another one.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_CRC32C_H_
