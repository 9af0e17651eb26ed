#ifndef MUSTER_COMMON_RPC_MEMBERSHIP_PROTOCOL_H_
#define MUSTER_COMMON_RPC_MEMBERSHIP_PROTOCOL_H_

#include <cstdint>

namespace muster {

// Version of the protocol between daemons, sent at registration. The coordinator accepts its own
// and the previous one.
inline constexpr uint32_t kProtocolVersion = 1;

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_MEMBERSHIP_PROTOCOL_H_
