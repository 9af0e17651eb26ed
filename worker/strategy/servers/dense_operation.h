#ifndef MUSTER_WORKER_STRATEGY_SERVERS_DENSE_OPERATION_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_DENSE_OPERATION_H_

#include "worker/strategy/servers/dense_runs.h"
#include "worker/strategy/servers/shard_router.h"

namespace muster {

// A push or pull under way, and the run of dense parameters that it covers.
struct DenseOperation {
  const DenseRun* run = nullptr;
  ShardRouter::Handle operation;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_DENSE_OPERATION_H_
