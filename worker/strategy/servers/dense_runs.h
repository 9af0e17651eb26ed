#ifndef MUSTER_WORKER_STRATEGY_SERVERS_DENSE_RUNS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_DENSE_RUNS_H_

#include <cstdint>
#include <vector>

#include "common/partition/dense_layout.h"

namespace muster {

// The parameters that one message covers: consecutive blocks of one partition, part and optimizer
// group, side by side in the flat space, so that an answer can be received where it belongs. All of
// them are `repeated`, or none.
struct DenseRun {
  uint32_t partition = 0;
  // Index within the partition, and how many.
  uint32_t first_block = 0;
  uint32_t blocks = 0;
  // Elements [begin, end) of the flat space, in the order of the message's payload.
  uint64_t begin = 0;
  uint64_t end = 0;
  // True if a lower tensor rank pushes these parameters.
  bool repeated = false;
  // True if they are frozen, and never pushed.
  bool frozen = false;
  // True if gradients are pushed as f32, whatever the wire's type (TensorSpec::sign_rate).
  bool pushed_as_f32 = false;

  uint64_t elements() const { return end - begin; }
  // Returns whether this rank pushes gradients of these parameters.
  bool pushed() const { return !repeated && !frozen; }
};

// Cuts the layout's blocks of each part and group into runs of at most `max_bytes` by unit (a
// larger block is a run of its own). A unit's runs are in order of the flat space. A pure function.
std::vector<std::vector<DenseRun>> DenseRunsByUnit(const DenseLayout& layout, int units,
                                                   uint64_t max_bytes);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_DENSE_RUNS_H_
