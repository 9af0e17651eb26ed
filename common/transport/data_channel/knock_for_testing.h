#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_KNOCK_FOR_TESTING_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_KNOCK_FOR_TESTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/transport/data_channel/channel_handshake.h"
#include "common/transport/descriptor.h"

namespace muster {

// A client in the middle of its way in: the server has admitted it, and TLS's handshake, if it
// asked for TLS, is next.
struct Admitted {
  Descriptor socket;
  std::string tls_key;
};

// Calls at the address's port on this machine, says hello and answers the challenge. Returns the
// server's verdict if that is not good. Blocks for 30 s at most.
absl::StatusOr<Admitted> KnockAt(const ChannelAddress& address, ChannelHello::Kind kind);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_KNOCK_FOR_TESTING_H_
