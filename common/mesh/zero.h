#ifndef MUSTER_COMMON_MESH_ZERO_H_
#define MUSTER_COMMON_MESH_ZERO_H_

#include <cstdint>

#include "common/mesh/rank_shards.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// These functions say what a job's data ranks divide among them (sharded data parallelism, ZeRO).
// All take a valid specification, with or without its defaults filled in.

// Returns S, the number of data ranks that divide one copy of the parameters. These are neighbours:
// data rank d has shard index d mod S in shard group d / S. Returns 1 if each holds everything
// (under stage 0, with a single data rank, in jobs that only evaluate) or if servers are the shard
// group.
uint32_t ShardGroupSize(const v1::JobSpec& spec);

// Returns the number of data ranks that divide one copy of the parameters in a round of so many
// ranks, which with JobSpec.min_workers may be fewer than the job's.
uint32_t ShardGroupSize(const v1::JobSpec& spec, uint32_t ranks);

// Returns whether rounds may have other numbers of ranks, which divide the parameters anew.
bool DividesAnew(const v1::JobSpec& spec);

// Returns the number of data ranks that divide one copy of the parameters in the job's smallest
// round.
uint32_t SmallestShardGroup(const v1::JobSpec& spec);

// Returns the shards of the parameters in a round of so many ranks: S for each tensor rank of each
// stage of a pipeline.
RankShards ShardsOfRanks(const v1::JobSpec& spec, uint32_t ranks);

// Returns whether servers are the shard group, as under stage 3 with update.dense PARAMETER_SERVER.
// A worker then holds parameters and gradients of units in flight alone, even if it only evaluates.
bool HoldsUnitsInFlight(const v1::JobSpec& spec);

// Returns the stage, 0 to 3; 0 if a shard group is a single rank, which divides nothing.
uint32_t ZeroStage(const v1::JobSpec& spec);

// Returns the memory in which a worker keeps units gathered over passes and micro-batches, beside
// units in flight. Returns 0 unless ranks of a shard group gather weights before each use.
uint64_t KeptGatheredBytes(const v1::JobSpec& spec);

// Returns whether workers keep their optimizer state on disk.
bool OffloadsOptimizerState(const v1::JobSpec& spec);

// Returns how many files of a checkpoint are written by ranks, one each, in a round of so many
// ranks. They are numbered by rank, after the files of the servers' partitions. 0: each file is a
// partition's.
uint32_t RankFiles(const v1::JobSpec& spec, uint32_t ranks);

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_ZERO_H_
