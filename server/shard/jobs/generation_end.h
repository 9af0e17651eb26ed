#ifndef MUSTER_SERVER_SHARD_JOBS_GENERATION_END_H_
#define MUSTER_SERVER_SHARD_JOBS_GENERATION_END_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/shard/jobs/open_job.h"
#include "server/shard/jobs/shard_resources.h"

namespace muster {

namespace v1 {
class EndGenerationReply;
class EndGenerationRequest;
}  // namespace v1

// Ends all generations before the next one in the partitions that the request names, and returns
// the clocks that they had reached. Stored partitions note the end durably before it is told.
// `open` is the job as it is open; null if it is not. Blocks. Errors as the rpc EndGeneration.
// REQUIRES: the caller has the job's turn; no later generation than the next one is open.
absl::StatusOr<v1::EndGenerationReply> EndPartitions(const v1::EndGenerationRequest& request,
                                                     OpenJob* open,
                                                     const ShardResources& resources);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_GENERATION_END_H_
