#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_HOST_OF_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_HOST_OF_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Returns HOST of HOST:PORT, without the brackets of an IPv6 address.
std::string HostOf(absl::string_view address);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_HOST_OF_H_
