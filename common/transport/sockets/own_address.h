#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_OWN_ADDRESS_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_OWN_ADDRESS_H_

#include <string>

#include "absl/types/optional.h"

namespace muster {

// The address of this machine, in numbers, that it calls `target` (HOST:PORT) from: under it those
// on that network reach this machine. None where the target is unknown, no way leads there, or it
// is this machine itself, by loopback. Sends nothing; may block on a name's resolution.
absl::optional<std::string> OwnAddressTowards(const std::string& target);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_OWN_ADDRESS_H_
