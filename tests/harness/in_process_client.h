#ifndef MUSTER_TESTS_HARNESS_IN_PROCESS_CLIENT_H_
#define MUSTER_TESTS_HARNESS_IN_PROCESS_CLIENT_H_

#include <memory>

#include "common/rpc/parameter_service/parameter_client.h"
#include "server/shard/calls/partition_host.h"

namespace muster {

// A client of a server in this process: hands operations straight to its engine, without a network.
// As over a network, Abort (and destruction) ends all exchanges, and what the server answers
// afterwards is dropped. `host` must outlive every client's last exchange.
std::unique_ptr<ParameterClient> MakeInProcessClient(PartitionHost& host);

}  // namespace muster

#endif  // MUSTER_TESTS_HARNESS_IN_PROCESS_CLIENT_H_
