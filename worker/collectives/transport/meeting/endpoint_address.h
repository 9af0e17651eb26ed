#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_ENDPOINT_ADDRESS_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_ENDPOINT_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// The address of a rank: the content of CollectiveEndpoint::address().
struct EndpointAddress {
  // IP or name, and port, for TCP.
  std::string host;
  uint16_t port = 0;
  // Name of the rank's abstract unix socket; empty if the rank shares no memory.
  std::string unix_name;
  // 16 random bytes, which a caller repeats. A caller with an old address is turned away.
  std::string nonce;
  // Process ID, for errors.
  uint32_t pid = 0;

  std::string Serialize() const;
  // Parses an address. InvalidArgument: `bytes` are no address, or one of a newer version.
  static absl::StatusOr<EndpointAddress> Parse(absl::string_view bytes);
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_ENDPOINT_ADDRESS_H_
