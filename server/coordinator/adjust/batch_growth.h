#ifndef MUSTER_SERVER_COORDINATOR_ADJUST_BATCH_GROWTH_H_
#define MUSTER_SERVER_COORDINATOR_ADJUST_BATCH_GROWTH_H_

#include <string>

#include "server/coordinator/adjust/decide.h"

namespace muster {

// Grows the batch towards the gradient noise scale (AdaptiveBatchSpec). A batch far below the noise
// scale is mostly noise, so that twice as many examples make a step nearly twice as good; one far
// above gains little from more. The batch never shrinks, at most doubles at a time, and stays at
// most max_batch_size; it is a multiple of all micro-batches of a step, so that all are equally
// large.
//
// Changes `next`, which holds what holds up to now, and returns why; empty: nothing changes.
std::string DecideBatch(const AdjustmentFacts& facts, v1::Adjustment& next);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_ADJUST_BATCH_GROWTH_H_
