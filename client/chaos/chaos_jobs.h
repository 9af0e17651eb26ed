#ifndef MUSTER_CLIENT_CHAOS_CHAOS_JOBS_H_
#define MUSTER_CLIENT_CHAOS_CHAOS_JOBS_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"

namespace muster {

// Jobs of a few seconds for two workers and at most two servers. All jobs except the f16 one and
// the elastic one are deterministic: whatever happens, their weights are those of an undisturbed
// run, bit for bit.

// Two are ZeRO stage 3, on servers under EVERY_PUSH and by all-reduce. The last one is ZeRO stage 2
// by all-reduce with one worker to three.
enum class ChaosRoad {
  kEveryPush,
  kCheckpoint,
  kAllReduce,
  kZeroEveryPush,
  kZeroAllReduce,
  kElastic
};
// Returns a name such as "EVERY_PUSH" or "ALL_REDUCE".
std::string RoadName(ChaosRoad road);

// Returns a job of this road. If servers hold the parameters, most checkpoints are deltas.
v1::JobSpec ChaosJob(ChaosRoad road, uint64_t steps, uint64_t checkpoint_every);

// Returns a job that trains a transformer in f16 on the text in `text_file`. It takes a checkpoint
// at every step and keeps all of them.
v1::JobSpec F16Job(const std::string& text_file);
// Returns a text for F16Job.
std::string ChaosText();

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CHAOS_JOBS_H_
