#ifndef MUSTER_SERVER_SHARD_SERVICE_IN_PROCESS_PARAMETER_CLIENT_H_
#define MUSTER_SERVER_SHARD_SERVICE_IN_PROCESS_PARAMETER_CLIENT_H_

#include <memory>

#include "common/rpc/parameter_service/parameter_client.h"
#include "server/shard/calls/partition_host.h"

namespace muster {

// Returns a client that calls `host` directly, for tests. `done` runs on the host's threads;
// timeouts are not kept. `host` outlives the client and everything it has outstanding.
std::unique_ptr<ParameterClient> MakeInProcessParameterClient(PartitionHost& host);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_IN_PROCESS_PARAMETER_CLIENT_H_
