#include "common/transport/sockets/own_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/transport/descriptor.h"
#include "common/transport/sockets/host_of.h"
#include "common/transport/sockets/resolve_host.h"

namespace muster {
namespace {

bool IsLoopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return ntohl(ip.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// Returns the source address that the kernel chooses for a datagram, which is never sent.
absl::optional<std::string> SourceFor(const addrinfo& target) {
  const Descriptor socket(::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own = {};
  socklen_t length = sizeof(own);
  char text[NI_MAXHOST];
  if (!socket.valid() || connect(socket.get(), target.ai_addr, target.ai_addrlen) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      IsLoopback(own) ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&own), length, text, sizeof(text), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return absl::nullopt;
  }
  return text;
}

}  // namespace

absl::optional<std::string> OwnAddressTowards(const std::string& target) {
  const size_t colon = target.rfind(':');
  if (colon == std::string::npos) return absl::nullopt;
  const std::string host = HostOf(target);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), target.c_str() + colon + 1, &hints, &list) != 0) {
    return absl::nullopt;
  }
  const Addresses addresses(list);
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    if (const absl::optional<std::string> own = SourceFor(*address)) return own;
  }
  return absl::nullopt;
}

}  // namespace muster
