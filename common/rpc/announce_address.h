#ifndef MUSTER_COMMON_RPC_ANNOUNCE_ADDRESS_H_
#define MUSTER_COMMON_RPC_ANNOUNCE_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace muster {

// Tells whoever started `program` where it listens: prints the line "PROGRAM: listening on
// HOST:PORT", flushed, and writes the address alone to `address_file` unless that is empty. The
// file appears whole or not at all. INTERNAL: the file cannot be written.
absl::Status AnnounceAddress(const std::string& program, const std::string& address,
                             const std::string& address_file);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_ANNOUNCE_ADDRESS_H_
