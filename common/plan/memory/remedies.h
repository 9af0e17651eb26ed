#ifndef MUSTER_COMMON_PLAN_MEMORY_REMEDIES_H_
#define MUSTER_COMMON_PLAN_MEMORY_REMEDIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/memory/memory_plan.h"
#include "common/plan/size/data_size.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Whose memory is short: each worker's, or that of each worker's device.
enum class MemoryOf { kWorker, kDevice };

// A change to a job, and what each worker or device then needs.
struct Remedy {
  // Such as "compute.recompute FULL".
  std::string change;
  uint64_t bytes = 0;
};

// The smallest changes, each by itself, that make a worker of the job, or its device, need at most
// `limit` bytes: recomputation, smaller micro-batches, more workers that share out the examples,
// the layers (tensor parallelism) or one after another (a pipeline), a higher ZeRO stage, tables
// and optimizer state on servers. If no change suffices alone, all that help are combined. Empty if
// even that does not suffice.
std::vector<Remedy> FindRemedies(const v1::JobSpec& spec, const DataSize& data,
                                 const WorkerProcessors& processors, MemoryOf memory,
                                 uint64_t limit);

// "it would fit with compute.recompute FULL (309.0 MiB), or micro_batches 4 (211.3 MiB)"; for none,
// what is left to do.
std::string DescribeRemedies(const std::vector<Remedy>& remedies);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_MEMORY_REMEDIES_H_
