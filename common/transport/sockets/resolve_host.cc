#include "common/transport/sockets/resolve_host.h"

#include <sys/socket.h>

#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<Addresses> ResolveHost(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &list);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("host '", host, "': ", gai_strerror(error)));
  }
  return Addresses(list);
}

}  // namespace muster
