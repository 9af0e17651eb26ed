#ifndef MUSTER_WORKER_DEVICE_MEMORY_DEVICE_OPTIONS_H_
#define MUSTER_WORKER_DEVICE_MEMORY_DEVICE_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/kernels/device/device_optimizer.h"
#include "common/mesh/mesh.h"
#include "common/partition/bucket_plan.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/device/device_memory_layout.h"
#include "common/tensor/dtype.h"
#include "worker/device/memory/await_device_memory.h"
#include "worker/nn/model.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// The side that steps the weights, and so has the optimizer state.
enum class OptimizerPlace {
  kDevice,
  // Somebody else, from gradients that are read back.
  kElsewhere,
};

// How a transformer is computed on a device, and how much at a time.
struct DeviceComputeOptions {
  // The type of matrices and of what enters and leaves products: kF32, kBf16 or kF16. Master
  // weights, gradients of parameters, the residual stream, norms, logits and the loss are always
  // f32.
  DType type = DType::kBf16;
  Recompute recompute = Recompute::kNone;
  // The largest micro-batch, of whole sequences.
  int64_t sequences = 0;
  int64_t length = 0;
  // The mesh along kShareAxes, of the ranks that compute the transformer together and those that
  // share out experts; and whether those of a layer share out rows where no rank needs all of them.
  Mesh mesh;
  bool sequence_parallel = false;
  ContextExchange context_exchange = ContextExchange::kRing;
  // The data ranks that count choices of experts together.
  int counting_ranks = 1;
  // The shape of a stage: the units of each of its chunks, the micro-batches of one
  // chunk that may be between forward and backward, whether they have backward in two actions, and
  // the messages of other stages, and to them, that there is memory for.
  std::vector<UnitRange> chunks = {UnitRange()};
  int activation_stashes = 1;
  bool split_backward = false;
  int messages = 0;
  OptimizerPlace optimizer = OptimizerPlace::kDevice;
  // What the rank has of parameters that its shard group divides; absent: it has all of them.
  absl::optional<DeviceShardExtents> shard;

  // Returns the rows that the rank has of the largest micro-batch.
  TokenRows rows() const {
    return {.sequences = sequences, .length = length / mesh.size(kContext)};
  }
  // Returns the units of each kind of arrays: of each chunk, and of several chunks from the first's
  // first to the last's last, which an evaluation's pass runs, except those of other stages
  // between.
  std::vector<UnitRange> array_units() const {
    std::vector<UnitRange> units = chunks;
    if (chunks.size() > 1)
      units.push_back({.first = chunks.front().first, .end = chunks.back().end});
    return units;
  }
};

// How one rank of a job trains on a device.
struct DeviceOptions {
  // The whole transformer.
  TransformerShape shape;
  DeviceComputeOptions compute;
  // What the rank has of the transformer's tensors, in their order; empty: all of them.
  std::vector<TensorSpec> shares;
  // Keys dropout.
  uint64_t seed = 0;
  AdamOptions optimizer;
  ClipOptions clip;
  BucketPlanOptions buckets;
  // The time limit of each collective call, in which ranks may have to wait for slower ones.
  absl::Duration timeout = absl::Minutes(10);
  // CUDA's number of the device.
  int device = 0;
  // How to wait for device memory that others have; empty: not at all.
  WaitFunction wait;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_MEMORY_DEVICE_OPTIONS_H_
