#ifndef MUSTER_WORKER_NN_MICRO_BATCH_PLACE_H_
#define MUSTER_WORKER_NN_MICRO_BATCH_PLACE_H_

namespace muster {

// Whether a micro-batch is the last of its step on this slot.
enum class MicroBatchPlace { kMoreFollow, kLast };

}  // namespace muster

#endif  // MUSTER_WORKER_NN_MICRO_BATCH_PLACE_H_
