#ifndef MUSTER_CLIENT_CHAOS_CHAOS_JOBS_H_
#define MUSTER_CLIENT_CHAOS_CHAOS_JOBS_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"

namespace muster {

// Jobs of some seconds that two workers train, on two servers if any. All but the last are
// deterministic: their weights are those of an undisturbed run, bit for bit, whatever happens.

enum class ChaosRoad { kEveryPush, kCheckpoint, kAllReduce };
// Such as "EVERY_PUSH", "ALL_REDUCE".
std::string RoadName(ChaosRoad road);

// Where servers hold the parameters, most checkpoints are deltas.
v1::JobSpec ChaosJob(ChaosRoad road, uint64_t steps, uint64_t checkpoint_every);

// A transformer in f16 on the text in `text_file`, with a checkpoint at every step, all of which
// stay. What its weights become depends on when a task is lost: the new one finds its loss scale
// anew.
v1::JobSpec F16Job(const std::string& text_file);
// A text for it.
std::string ChaosText();

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CHAOS_JOBS_H_
