#ifndef MUSTER_SERVER_COORDINATOR_MEMORY_PREDICTION_H_
#define MUSTER_SERVER_COORDINATOR_MEMORY_PREDICTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

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
//            R (4 (dim + slots of a row) + 64)  rows, and what the table keeps beside them; with
//                                               sparse_tables.cache_bytes at most these, and the
//                                               rows of a step
//   worker   4 P * 2                            weights and gradients
//            share * widths * 4 * 3             activations of a micro-batch, their gradients, two
//                                               batches
//            64 MiB                             program and buffers
//
// By all-reduce servers have no dense parameters, and in a job without servers no rows either; a
// worker has, besides the above,
//
//            4 P * optimizer slots
//            2 * largest bucket                 what travels, by F32
//            2 P                                … by BF16, the gradients in half
//            R (4 (dim + slots of a row) + 64)  if rows go by all-reduce
//            keys of a step * (4 dim + 8) * 2   … and those touched by all workers, gathered and
//                                               summed; 64 keys per example where nothing bounds
//                                               them
struct MemoryPrediction {
  struct Part {
    absl::string_view name;
    uint64_t bytes = 0;
  };
  uint64_t server_bytes = 0;
  // Of one slot: the sum of its parts.
  uint64_t worker_bytes = 0;
  std::vector<Part> worker_parts;
};

// REQUIRES: a valid specification, its defaults filled in.
MemoryPrediction PredictMemory(const v1::JobSpec& spec);

// "1.2 GiB = weights 400.0 MiB + gradients 400.0 MiB + ...": what one slot needs.
std::string DescribeWorker(const MemoryPrediction& prediction);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_MEMORY_PREDICTION_H_
