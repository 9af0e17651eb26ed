#ifndef MUSTER_WORKER_STRATEGY_DENSE_RUNS_H_
#define MUSTER_WORKER_STRATEGY_DENSE_RUNS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/partition/dense_layout.h"
#include "common/tensor/dtype.h"

namespace muster {

// What one message about dense parameters covers: consecutive blocks of one partition, all of one
// layer unit.
struct DenseRun {
  uint32_t partition = 0;
  // Index within the partition, and how many.
  uint32_t first_block = 0;
  uint32_t blocks = 0;
  // Elements [begin, end) of the flat space, block by block: the order of the message's payload.
  // Blocks that are neighbours there too are joined.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  uint64_t elements = 0;
};

// Cuts the layout's blocks of each unit into runs of at most `max_bytes` (a larger block is a run
// of its own), by unit; the runs of a unit are in order of partition, then block. A pure function.
std::vector<std::vector<DenseRun>> DenseRunsByUnit(const DenseLayout& layout, int units,
                                                   uint64_t max_bytes);

// The run's elements of `flat` as a payload, without a copy. `owner` keeps `flat` alive and
// unchanged.
Payload GatherRun(const DenseRun& run, absl::Span<const float> flat,
                  std::shared_ptr<const void> owner);

// Copies a payload with the run's elements, of kF32, kBf16 or kF16, to their places in `flat`.
// REQUIRES: payload.size() == SizeOf(type) * run.elements.
void ScatterRun(const DenseRun& run, const Payload& payload, DType type, absl::Span<float> flat);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_DENSE_RUNS_H_
