#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_RESOLVE_HOST_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_RESOLVE_HOST_H_

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

struct AddressesDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

// Returns the stream addresses of a host, a name or a number, with this port. InvalidArgument: the
// host has none; says why. Blocks while it asks name servers. Thread-safe.
absl::StatusOr<Addresses> ResolveHost(const std::string& host, uint16_t port);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_RESOLVE_HOST_H_
