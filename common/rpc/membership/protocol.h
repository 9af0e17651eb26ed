#ifndef MUSTER_COMMON_RPC_MEMBERSHIP_PROTOCOL_H_
#define MUSTER_COMMON_RPC_MEMBERSHIP_PROTOCOL_H_

#include <cstdint>

namespace muster {

// Version of the protocol between daemons, sent at registration. The coordinator accepts its own
// alone. Raise it when a daemon that ignores a new field would do the wrong thing.
//   2: pushes of single micro-batches
inline constexpr uint32_t kProtocolVersion = 2;

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_MEMBERSHIP_PROTOCOL_H_
