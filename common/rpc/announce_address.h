#ifndef MUSTER_COMMON_RPC_ANNOUNCE_ADDRESS_H_
#define MUSTER_COMMON_RPC_ANNOUNCE_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace muster {

// Tells those who started `program` where it listens: a line "PROGRAM: listening on HOST:PORT" on
// standard output, flushed, and the address alone in `address_file` unless that is empty. The file
// appears whole or not at all. INTERNAL: the file cannot be written.
absl::Status AnnounceAddress(const std::string& program, const std::string& address,
                             const std::string& address_file);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_ANNOUNCE_ADDRESS_H_
