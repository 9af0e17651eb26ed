#ifndef MUSTER_COMMON_PLAN_MEMORY_MEMORY_PLAN_H_
#define MUSTER_COMMON_PLAN_MEMORY_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "common/plan/size/data_size.h"
#include "common/plan/size/memory_part.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// What is known of the processors that a job's workers run on.
struct WorkerProcessors {
  // True if all of them multiply bf16 themselves (common/base/machine/multiplies_bfloat16.h), and
  // need no scratch for it. Where that is not known, what is planned is the most.
  bool multiply_bf16 = false;
  // The most that a task of a job without threads_per_worker computes with.
  uint32_t threads = 1;
};

// What a job takes of each of its workers and of its servers together. Pure arithmetic over the
// specification and what is known of the data and of processors; nothing is allocated or read. With
// P dense parameters, s floats of optimizer state for each, and W data ranks (of frozen parameters
// there are the parameters alone: everything else is of those that are trained):
//
//   worker   parameters            4 P
//            gradients             4 P                but by all-reduce where devices compute
//            optimizer state       4 P s              by all-reduce; where devices compute, it and
//                                                     parameters are there only in joins and cuts
//            others' gradients     4 P (W - 1)        by all-reduce on processors, mapped from
//                                                     ranks of the same machine (6 P (W - 1) by
//                                                     BF16)
//            messages              from servers: a window of parameters that come in another type
//                                  than they are kept in; what 16-bit pushes carry over
//            16-bit weights        2 P                of the matrices
//            activations           of one micro-batch (transformer_memory_plan.h); none of these
//                                  where the job computes on devices
//            evaluation            activations of one pass of it, with a holdout
//            program               code, libraries, and what they allocate for themselves
//   device   where the job computes on devices: transformer_device_plan.h, and CUDA's own
//   servers  4 P (2 + s)           weights, state, the sums of the open clock
//            4 P W, if deterministic
//            4 P W, what has come of several workers, at most 72 MiB of each on each server
//            rows
//
// Under a ZeRO stage, with N ranks of a shard group and R shard groups (sharded_memory.h), the
// first four are, as far as a rank has them in f32 (16 bits: in bf16 or f16 matrices alone):
//
//   stage                          1                  2                  3
//   gathered parameters            4 P; 2 P, if 16    4 P; 2 P, if 16    units in flight
//   slice of parameters            4 P / N, if 16     4 P / N, if 16     4 P / N
//   gradients                      4 P                units in flight    units in flight
//   sums of gradients              among gradients    4 P / N            4 P / N
//   optimizer state                4 P s / N          4 P s / N          4 P s / N
//   others' memory, mapped         N - 1 times what is gathered and gradients; R - 1 times sums
//
// ("if 16": of what the model computes with in 16 bits). So f32 with Adam, s = 2, takes 16 P,
// 8 P + 8 P / N, 4 P + 12 P / N and 16 P / N by stages 0 to 3, and 16 bits 18 P, 6 P + 12 P / N,
// 2 P + 16 P / N and 16 P / N, beside units in flight.
//
// Muon keeps two floats of state for each parameter, s = 2: of a matrix its momentum and the
// direction of a step. Beside that a worker, or each partition of servers, has one matrix of r · c
// elements in work, 4 (r c + 2 min(r, c)²) bytes; and where ranks divide matrices, three times a
// unit's part of them and its largest one.
//
// Offloaded optimizer state is on disk instead, and at most 32 MiB of its file mapped at a time.
//
// A job whose ranks divide the parameters anew when they become fewer (DividesAnew) is planned for
// the fewest, JobSpec.min_workers, and for the moment when a rank has its former and its new slice
// and rows.
//
// With tensor parallelism a worker's parameters are what its rank has of them (SizeOfRank), and its
// activations those of its heads, columns and, unless tokens are not divided, tokens, with one
// gathered block among their scratch. The plan is that of the first rank of a tensor group, which
// has what others lack: positions, and biases of layers whose inputs are divided. Servers hold the
// whole P.
//
// A stage of a pipeline has the parameters of its layers, and the last one those of the embedding,
// too, if the head is tied to it. It has the activations of its largest chunk for as many
// micro-batches as it saves at a time (common/step/compute_order.h), with what ZERO_BUBBLE
// keeps for the gradients of weights, and memory for the messages that it exchanges with other
// stages.
//
// A job that only evaluates has no gradients, and activations of an evaluation alone.
//
// A worker's sum is its peak resident set on a CPU; tests/plan measures that it is, within 5 %.
struct MemoryPlan {
  std::vector<MemoryPart> worker;
  // Of each worker's device; empty where the job computes on none.
  std::vector<MemoryPart> device;
  std::vector<MemoryPart> servers;
  // The dense parameters that a worker computes with, tied ones once.
  uint64_t parameters = 0;
  // The worker's activations of training and logits, which depend on recomputation. Where the job
  // computes on devices, those of its device, without logits.
  uint64_t activation_bytes = 0;
  // The length of each worker's file of optimizer state, if the job offloads it; of its former and
  // its new one, which are there at once, where ranks divide the parameters anew.
  uint64_t disk_bytes = 0;

  // The peak of a worker's resident set where all workers are on one machine.
  uint64_t worker_bytes() const;
  // Without what is mapped: what must be there for each worker.
  uint64_t worker_own_bytes() const;
  // A worker's and a device's parts that are model state.
  uint64_t worker_state_bytes() const;
  uint64_t device_state_bytes() const;
  uint64_t device_bytes() const;
  uint64_t server_bytes() const;
};

// Return the plan of each stage of the job's pipeline, one if it has none, and the plan of the
// stage that needs the most. REQUIRES: a valid specification, its defaults filled in or not.
std::vector<MemoryPlan> PlanMemoryOfStages(const v1::JobSpec& spec, const DataSize& data,
                                           const WorkerProcessors& processors = {});
MemoryPlan PlanMemory(const v1::JobSpec& spec, const DataSize& data,
                      const WorkerProcessors& processors = {});

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_MEMORY_MEMORY_PLAN_H_
