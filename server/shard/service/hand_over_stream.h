#ifndef MUSTER_SERVER_SHARD_SERVICE_HAND_OVER_STREAM_H_
#define MUSTER_SERVER_SHARD_SERVICE_HAND_OVER_STREAM_H_

#include "grpcpp/support/server_callback.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/service/blocking_pool.h"

namespace muster {

// Serves one call of HandOver on a thread of `pool`, which makes each message when the one before
// is on its way. Null `mover`: UNIMPLEMENTED. The reactor deletes itself. Mover and pool outlive
// the call.
grpc::ServerWriteReactor<v1::HandOverChunk>* StartHandOver(PartitionMover* mover,
                                                           const v1::HandOverRequest& request,
                                                           BlockingPool& pool);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_HAND_OVER_STREAM_H_
