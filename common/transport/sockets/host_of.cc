#include "common/transport/sockets/host_of.h"

namespace muster {

std::string HostOf(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return std::string(host);
}

}  // namespace muster
