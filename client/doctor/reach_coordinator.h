#ifndef MUSTER_CLIENT_DOCTOR_REACH_COORDINATOR_H_
#define MUSTER_CLIENT_DOCTOR_REACH_COORDINATOR_H_

#include <string>

#include "client/doctor/finding.h"
#include "common/rpc/rpc_credentials.h"

namespace muster {

// Connects to the coordinator's port and calls it, step by step, so that the first step that fails
// says what is wrong: the address, the host's name, the port, TLS, the release. Also compares the
// clocks. Returns true if the coordinator answers. Blocks for some seconds.
bool ReachCoordinator(const std::string& address, const RpcCredentials& credentials,
                      Findings& findings);

}  // namespace muster

#endif  // MUSTER_CLIENT_DOCTOR_REACH_COORDINATOR_H_
