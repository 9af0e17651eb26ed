#ifndef MUSTER_SERVER_SHARD_SERVICE_PARTITION_SOURCE_H_
#define MUSTER_SERVER_SHARD_SERVICE_PARTITION_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/rpc/rpc_credentials.h"
#include "server/shard/moves/partition_mover.h"

namespace muster {

// The servers that partitions come from. Thread-safe.
class PartitionSource {
 public:
  virtual ~PartitionSource() = default;

  // Passes to `sink` all that the server at `address` sends of the partition; see the rpc HandOver.
  // Blocks. An error of `sink` ends the call and is returned. CANCELLED: Cancel was called.
  virtual absl::Status Fetch(const std::string& address, const PartitionMove& move,
                             PartitionMover::ChunkSink sink) = 0;

  // Ends the Fetch in progress, if there is one.
  virtual void Cancel() = 0;
};

// Returns a source over gRPC.
std::unique_ptr<PartitionSource> MakeGrpcPartitionSource(const RpcCredentials& credentials);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_PARTITION_SOURCE_H_
