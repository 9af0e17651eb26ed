#ifndef MUSTER_COMMON_MESH_JOB_MESH_H_
#define MUSTER_COMMON_MESH_JOB_MESH_H_

#include <cstdint>

#include "common/mesh/mesh.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// The mesh of a job, and what its data ranks divide among them (sharded data parallelism, ZeRO).
// All functions take a valid specification, with or without its defaults filled in. `ranks` is the
// number of ranks of a round, which with JobSpec.min_workers may be fewer than the job's workers,
// and with JobSpec.max_workers more.

// Returns the most workers that the job trains with at a time.
uint32_t MostWorkers(const v1::JobSpec& spec);

// Returns the mesh of the job's ranks, which are as many as its workers. Along kShardAxes, data and
// context ranks divide one copy of the parameters: they have size 1 if each rank holds everything
// (under stage 0, with a single rank, in jobs that only evaluate) or if servers are the shard
// group. Of a specification whose sizes do not divide its workers, as the validator may meet it,
// the data ranks are rounded down.
Mesh MeshOf(const v1::JobSpec& spec);
Mesh MeshOf(const v1::JobSpec& spec, uint32_t ranks);

// Returns the size of the mesh of all the job's workers along the axes.
uint32_t SizeAlong(Axes axes, const v1::JobSpec& spec);

// Returns the examples of the largest step of the job's `workers`, whose memory all steps have.
uint32_t LargestBatch(const v1::JobSpec& spec);

// Returns the examples of a step of so many data ranks under JobSpec.scale_batch: the part of
// `batch_size` that they are of the job's data ranks, rounded down so that all micro-batches are
// equally large; with all of the job's data ranks `batch_size` itself. No rank takes more examples
// than it does with these. A batch for which there are not `most` examples is smaller. At least
// one for each micro-batch. REQUIRES: data_ranks >= 1.
uint64_t ScaledBatch(const v1::JobSpec& spec, uint32_t data_ranks, uint64_t most);
// Returns the examples of the job's largest step with any number of workers.
uint64_t LargestScaledBatch(const v1::JobSpec& spec);

// Returns the examples of the largest micro-batch of any data rank. A round with fewer data ranks
// has no larger micro-batch (common/step/shares.h).
uint32_t LargestMicroBatch(const v1::JobSpec& spec);

// Returns whether tensor ranks also share out the tokens where no rank needs all of them (sequence
// parallelism).
bool DividesTokens(const v1::JobSpec& spec);

// Whose choices of experts are counted together. kTogether: those of all data ranks
// (MoeSpec.GLOBAL_BATCH, capacity_factor), which for that have a group of their own, since calls
// within layers come in another order than those that move gradients.
enum class ChoicesCounted { kByDataRank, kTogether };
ChoicesCounted ChoicesCountedOf(const v1::JobSpec& spec);

// Returns whether all ranks compute together, because several data ranks count choices together.
bool AllComputeTogether(const v1::JobSpec& spec);

// Returns the number of ranks that compute together, since they make calls within a pass: those
// along kShareAxes, or all. On servers they read one version of the parameters, and repeat a clock
// together.
uint32_t RanksTogether(const v1::JobSpec& spec);

// Returns whether data ranks sum gradients in order of rank (CollectiveCall::deterministic), where
// their communicator can: if the job asks for it, and always with several tensor ranks. Each of
// these sums its copy of what it shares with others among data ranks of its own. In another order
// such as a ring's, which depends on where an element lies, the copies would drift apart by
// rounding.
bool SumsInRankOrder(const v1::JobSpec& spec);

// Returns whether rounds may have other numbers of ranks, which divide the parameters anew.
bool DividesAnew(const v1::JobSpec& spec);

// Returns the number of data ranks that divide one copy of the parameters in the job's smallest
// round.
uint32_t SmallestShardGroup(const v1::JobSpec& spec);

// Returns whether the ranks divide parameters and optimizer state among them (kStateAxes). If not,
// each has all, or servers have.
bool RanksDivideState(const v1::JobSpec& spec, uint32_t ranks);

// Returns whether servers are the shard group, as under stage 3 with update.dense PARAMETER_SERVER.
// A worker then holds parameters and gradients of units in flight alone, even if it only evaluates.
bool HoldsUnitsInFlight(const v1::JobSpec& spec);

// Returns the ZeRO stage, 0 to 3; 0 if a shard group is a single rank, which divides nothing.
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

#endif  // MUSTER_COMMON_MESH_JOB_MESH_H_
