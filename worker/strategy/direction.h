#ifndef MUSTER_WORKER_STRATEGY_DIRECTION_H_
#define MUSTER_WORKER_STRATEGY_DIRECTION_H_

namespace muster {

// The way in which a pass goes through a model's units: kForward from the first to the last,
// kBackward from the last to the first.
enum class Direction { kForward, kBackward };

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_DIRECTION_H_
