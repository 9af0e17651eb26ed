#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_ENDPOINT_ADDRESS_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_ENDPOINT_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Where a rank can be reached: the content of CollectiveEndpoint::address().
struct EndpointAddress {
  // For TCP: IP or name, and port.
  std::string host;
  uint16_t port = 0;
  // Name of its abstract unix socket; empty: it shares no memory.
  std::string unix_name;
  // Random, of 16 bytes. A caller repeats it, so that one who has an old address is turned away.
  std::string nonce;
  // For errors.
  uint32_t pid = 0;

  std::string Serialize() const;
  // InvalidArgument: not an address, or one of a newer version.
  static absl::StatusOr<EndpointAddress> Parse(absl::string_view bytes);
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_ENDPOINT_ADDRESS_H_
