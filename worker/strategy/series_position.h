#ifndef MUSTER_WORKER_STRATEGY_SERIES_POSITION_H_
#define MUSTER_WORKER_STRATEGY_SERIES_POSITION_H_

namespace muster {

// Says if more of a series follow: of a step's micro-batches on this slot, or of a task's
// checkpoints.
enum class SeriesPosition { kMoreFollow, kLast };

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERIES_POSITION_H_
