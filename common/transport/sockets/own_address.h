#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_OWN_ADDRESS_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_OWN_ADDRESS_H_

#include <string>

#include "absl/types/optional.h"

namespace muster {

// Returns the numeric address from which this machine connects to `target` (HOST:PORT); machines on
// that network reach this one under it. nullopt: the target is unknown, no route leads there, or
// the route is this machine's loopback. Sends nothing; may block on a name's resolution.
absl::optional<std::string> OwnAddressTowards(const std::string& target);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_OWN_ADDRESS_H_
