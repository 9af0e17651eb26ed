#ifndef MUSTER_COMMON_JOB_JOB_ROAD_H_
#define MUSTER_COMMON_JOB_JOB_ROAD_H_

#include <cstdint>

namespace muster {

namespace v1 {
class JobSpec;
class UpdateSpec;
}  // namespace v1

// The road by which a job's gradients become parameters, from its specification, before and after
// its defaults were filled in:
//
//   update.dense       update.sparse
//   PARAMETER_SERVER   PARAMETER_SERVER   servers hold everything
//   ALL_REDUCE         PARAMETER_SERVER   hybrid: servers hold the sparse tables alone
//   ALL_REDUCE         ALL_REDUCE         every worker holds a replica; no servers
//
// A model without sparse tables is never hybrid. What the processes of a program do is their own
// affair: they count as training by all-reduce, since the loss of one ends what the others do,
// unless the program is `elastic`. With update.dense PARAMETER_SERVER a program has parameters on
// servers, too; it tells them of its tables itself.

// Returns whether the job runs a program of the user's own.
bool RunsProgram(const v1::JobSpec& spec);

// Returns whether dense gradients go from worker to worker.
bool TrainsByAllReduce(const v1::JobSpec& spec);

// Returns whether dense gradients go from worker to worker, and sparse tables are on servers.
bool IsHybrid(const v1::JobSpec& spec);

bool NeedsServers(const v1::JobSpec& spec);

// Returns whether tasks make collective calls, and so train in rounds (glossary): by all-reduce, or
// with tensor ranks, context ranks or stages.
bool TrainsInRounds(const v1::JobSpec& spec);

// Returns whether losing any rank is final: the whole job goes back to its last checkpoint, because
// the other ranks cannot give a successor what it needs. In a hybrid job
// servers may be ahead of the replicas, and cannot go back by a step. In a job with several shards
// (RanksDivideState in common/mesh/job_mesh.h) nobody else has the lost rank's shard, unless other
// shard groups have replicas of it or ZeroSpec.redundancy keeps copies. A program that is not
// elastic begins again as a whole. On parameter servers ranks hold nothing, but for what pushes in
// 16 bits have rounded away: a run that is to repeat bit for bit needs it, and finds it in a
// checkpoint alone.
bool LossIsFinal(const v1::JobSpec& spec);
// Returns the same of a round of so many ranks, in which there may be fewer or more copies of what
// a rank has.
bool LossIsFinal(const v1::JobSpec& spec, uint32_t ranks);

// Returns whether the slots that train may change while servers keep the tables in place: on
// servers, with JobSpec.min_workers.
bool MembersChangeOnServers(const v1::JobSpec& spec);

// Judges by the kind of model; the tables may turn out to be empty.
bool HasSparseTables(const v1::JobSpec& spec);

// Returns whether all slots make one step together (bulk-synchronous parallel).
bool IsBsp(const v1::UpdateSpec& update);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_JOB_ROAD_H_
