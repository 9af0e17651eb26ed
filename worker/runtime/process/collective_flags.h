#ifndef MUSTER_WORKER_RUNTIME_PROCESS_COLLECTIVE_FLAGS_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_COLLECTIVE_FLAGS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/rpc/rpc_credentials.h"
#include "worker/collectives/endpoint.h"

namespace muster {

// Flags that say how this machine's tasks train with each other and with tasks of other machines.
// The daemon hands them on to the processes of its tasks.
struct CollectiveFlags {
  // DefaultCollectivesHost if empty.
  std::string host;
  // FIRST-LAST; empty means any free port.
  std::string ports;
  std::string advertised_host;
  std::string transport = "shared_memory";
  bool tls = false;
  int connections = 1;
};

void AddCollectiveFlags(CLI::App& app, CollectiveFlags& flags);

// Returns the host to use without --collectives-host: the address from which this machine calls the
// coordinator or, if that is a loopback address or there is none, the machine's name.
std::string DefaultCollectivesHost(const std::string& coordinator_address);

// Returns the flags as command line arguments.
std::vector<std::string> Arguments(const CollectiveFlags& flags);

HostEndpointOptions EndpointOptions(const CollectiveFlags& flags,
                                    const RpcCredentials& credentials);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_COLLECTIVE_FLAGS_H_
