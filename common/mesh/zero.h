#ifndef MUSTER_COMMON_MESH_ZERO_H_
#define MUSTER_COMMON_MESH_ZERO_H_

#include <cstdint>

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// What a job's data ranks divide among them (sharded data parallelism, ZeRO). All take a valid
// specification, its defaults filled in or not.

// Returns how many ranks divide one copy of the parameters: neighbours, so rank r of a job has
// shard index r mod S in its shard group, r / S. 1: each rank holds everything, as under stage 0,
// with a single data rank, and in jobs that only evaluate; or servers are the shard group.
uint32_t ShardGroupSize(const v1::JobSpec& spec);

// Returns whether servers are the shard group: under stage 3, where update.dense is
// PARAMETER_SERVER. A worker then holds parameters and gradients of units in flight alone, also
// where it only evaluates.
bool HoldsUnitsInFlight(const v1::JobSpec& spec);

// Returns the stage, 0 to 3; 0 whenever a shard group is one rank, which has nothing to divide.
uint32_t ZeroStage(const v1::JobSpec& spec);

// Returns how many files of a checkpoint are written by ranks, one each, numbered by rank after
// those of the servers' partitions; 0: each file is a partition's.
uint32_t RankFiles(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_ZERO_H_
