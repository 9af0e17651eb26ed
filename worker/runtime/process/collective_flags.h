#ifndef MUSTER_WORKER_RUNTIME_PROCESS_COLLECTIVE_FLAGS_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_COLLECTIVE_FLAGS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/rpc/rpc_credentials.h"
#include "worker/collectives/endpoint.h"

namespace muster {

// How this machine's tasks train with one another and with those of other machines: flags of the
// daemon, which it hands on to the processes of its tasks.
struct CollectiveFlags {
  // Empty: DefaultCollectivesHost.
  std::string host;
  // FIRST-LAST; empty: any free port.
  std::string ports;
  std::string advertised_host;
  std::string transport = "shared_memory";
  bool tls = false;
  int connections = 1;
};

void AddCollectiveFlags(CLI::App& app, CollectiveFlags& flags);

// Where --collectives-host is left out: the address from which this machine calls the coordinator,
// or its name where there is none but loopback's.
std::string DefaultCollectivesHost(const std::string& coordinator_address);

// The same as a command line.
std::vector<std::string> Arguments(const CollectiveFlags& flags);

HostEndpointOptions EndpointOptions(const CollectiveFlags& flags,
                                    const RpcCredentials& credentials);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_COLLECTIVE_FLAGS_H_
