#ifndef MUSTER_CLIENT_CHAOS_FAULTS_SOCKET_OWNER_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_SOCKET_OWNER_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace muster {

// Returns the process among `candidates` that has a TCP connection on this machine from the port
// `local` to the port `remote`, or 0 if none has. Reads /proc.
pid_t ConnectionOwner(uint16_t local, uint16_t remote, const std::vector<pid_t>& candidates);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_SOCKET_OWNER_H_
