#ifndef MUSTER_COMMON_BASE_CRC32C_H_
#define MUSTER_COMMON_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster {

// Returns the CRC-32C of bytes (Castagnoli's polynomial), as RFC 3720 defines it. Only for foreign
// formats; Muster's own use Fingerprint.
uint32_t Crc32c(absl::string_view bytes);

// Returns the masked CRC-32C that logs of RocksDB and TensorFlow's record files store: rotated by
// 15 bits, plus a constant, because the CRC of bytes that contain their own CRC is weak.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_CRC32C_H_
