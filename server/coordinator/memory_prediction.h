#ifndef MUSTER_SERVER_COORDINATOR_MEMORY_PREDICTION_H_
#define MUSTER_SERVER_COORDINATOR_MEMORY_PREDICTION_H_

#include <cstdint>

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Bytes that a job is predicted to need, reserved while it is placed. The data is not read for it,
// so this is an estimate where sizes depend on the data:
//
//   dense parameters P   from the model; images are taken to have 784 pixels
//   sparse rows R        distinct keys that the specification bounds (buckets, cardinality), at
//                        most 2^18 per field or order; 2^18 where nothing bounds them
//
//   servers  4 P (2 + optimizer slots)          weights, slots, the sums of the open clock
//            4 P W, if deterministic            previous weights, and gradients that wait for their
//                                               turn in slot order
//            R (4 (dim + slots of a row) + 48)  rows, and what the table keeps beside them
//   worker   4 P * 2                            weights and gradients
//            batch share * widths * 4 * 3       activations, their gradients, two batches
//            64 MiB                             program and buffers
struct MemoryPrediction {
  uint64_t server_bytes = 0;
  // Of one slot.
  uint64_t worker_bytes = 0;
};

// REQUIRES: a valid specification.
MemoryPrediction PredictMemory(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_MEMORY_PREDICTION_H_
