#ifndef MUSTER_COMMON_PLAN_DEVICE_DEVICE_MEMORY_LAYOUT_H_
#define MUSTER_COMMON_PLAN_DEVICE_DEVICE_MEMORY_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "common/base/round_up.h"
#include "common/compute/activation_layout.h"
#include "common/compute/transformer_activations.h"
#include "common/device/arena_plan.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"

namespace muster {

struct DeviceAdamStep;
struct DeviceBatchRecord;
struct HeadSums;
struct GradientControl;
struct RouterSums;

// Where a transformer's training keeps everything on a device: for the engine (worker/device),
// which takes that memory in two blocks, and for those who only ask how much it is. Letters as in
// common/compute/transformer_activations.h; N are the tokens of the largest micro-batch. Arrays of
// a smaller one begin where the largest's do.

// What must be there beside it: room for graphs, code and cuBLASLt's buffers, ...
inline constexpr uint64_t kDeviceHeadroomBytes = uint64_t{256} << 20;
// ... CUDA's context, and where ranks sum on devices NCCL's communicator. Each is about half a GiB;
// the margin is there because a job that just fails to fit, but is not refused, is tried again and
// again.
inline constexpr uint64_t kCudaContextBytes = uint64_t{1} << 30;
inline constexpr uint64_t kNcclBytes = uint64_t{512} << 20;

// Workspace for matrix products, as large as cuBLASLt wants it on sm_90.
inline constexpr uint64_t kDeviceWorkspaceBytes = uint64_t{32} << 20;

// What a rank has on its device of parameters that its shard group divides (ZeRO stages 1 to 3;
// common/plan/device/device_shard_plan.h).
struct DeviceShardExtents {
  // Elements: of the rank's f32 weights, unless they are stepped where they are gathered; of sums
  // of gradients, unless these lie among the gradients; of each of Adam's moments.
  uint64_t weights = 0;
  uint64_t sums = 0;
  uint64_t moments = 0;
  // Bytes of the 16-bit copies of what is gathered in f32.
  uint64_t copies_bytes = 0;
  // Bytes of the communicator's memory: gathered weights and gradients, of all units or of those in
  // flight.
  uint64_t gathered_bytes = 0;
  uint64_t gradient_bytes = 0;
};

// What arrays go by.
struct DeviceExtents {
  ActivationRequest activations = {.placement = kOnDevice};
  // Other arrays that the memory of an activation stash holds in place of these: of further chunks
  // of a pipeline's stage, and of an evaluation of all its chunks.
  std::vector<ActivationRequest> other_activations;
  // The micro-batches that are between forward and backward at a time.
  uint64_t activation_stashes = 1;
  // Elements of a flat space: of all tensors, each padded as PaddedElements says.
  uint64_t parameters = 0;
  // Elements of the table of rotary positions, context · D; 0: there is none.
  uint64_t rotary = 0;
  // True if Adam's moments are here; otherwise somebody else steps the parameters.
  bool optimizer_here = true;
  // If there, takes the place of `parameters`.
  absl::optional<DeviceShardExtents> shard;
  // Messages that the stage of a pipeline has memory for, each of StageMessageBytes.
  uint64_t messages = 0;
};

// Returns the most bytes that stages of a pipeline send one another of one micro-batch, in whole
// cache lines: each rank sends its own rows of the residual stream.
uint64_t StageMessageBytes(const ActivationRequest& activations);

// Of a tensor in the flat spaces: whole cache lines, 256 bytes of f32 and 128 of a 16-bit copy,
// which vector loads and cuBLASLt need.
constexpr uint64_t PaddedElements(uint64_t elements) { return RoundUp(elements, 64); }
// The same tensors as rows of padded elements: what flat layouts and plans of buckets are made of.
std::vector<TensorSpec> PaddedTensors(std::vector<TensorSpec> tensors);

// What changes from micro-batch to micro-batch; copied from the host as one piece, so one array
// lies behind the other.
struct DeviceBatchArrays {
  int32_t* tokens = nullptr;  // [N]
  int32_t* labels = nullptr;  // [N]
  // Used where documents share sequences (TokenRows::token_positions).
  int32_t* positions = nullptr;  // [N]
  // TokenRows::whole_positions, if context ranks share out heads.
  int32_t* whole_positions = nullptr;  // [c N]
  int32_t* token_order = nullptr;      // [TokenOrderSize(N)]
  int32_t* position_order = nullptr;   // [TokenOrderSize(N)]
  DeviceBatchRecord* record = nullptr;
};

// What kernels need beside a transformer's arrays.
struct DeviceScratch {
  void* ops = nullptr;  // DeviceOpsScratch's
  size_t ops_bytes = 0;
  void* workspace = nullptr;  // of matrix products
};

// Bytes by what they are for, padding included; `total` is all of them.
struct DeviceMemoryBytes {
  size_t weights = 0;
  // Of a rank that gathers them, and its sums of gradients apart from the gradients.
  size_t gathered_weights = 0;
  size_t gradient_sums = 0;
  size_t rounded_weights = 0;
  size_t gradients = 0;
  size_t optimizer_state = 0;
  // Kept from forward to backward.
  size_t activations = 0;
  size_t logits = 0;
  size_t scratch = 0;
  // Messages with other stages of a pipeline, in the memory of their communicator.
  size_t messages = 0;
  size_t total = 0;
};

// Each record, which is of fixed size, has as much.
inline constexpr size_t kDeviceRecordBytes = ArenaPlan::kAlignment;

// The block of what lasts from step to step.
struct DeviceState {
  // Flat, f32; of a shard, slices of weights, and of sums in place of gradients.
  float* weights = nullptr;
  float* gradients = nullptr;
  // Null where the optimizer is elsewhere.
  float* m = nullptr;
  float* v = nullptr;
  // The weights in the type of computation, or of a shard the copies; null for f32.
  void* rounded = nullptr;
  GradientControl* control = nullptr;
  // With and without weight decay.
  DeviceAdamStep* adam = nullptr;
  // The step's examples on all ranks, and the factor by which the loss was multiplied.
  double* examples = nullptr;
  float* loss_scale = nullptr;
  double* squares = nullptr;
  double* squares_scratch = nullptr;
  DeviceMemoryBytes bytes;
};

// What a micro-batch has from its forward to the end of its backward.
struct DeviceActivationStash {
  // Those of DeviceExtents::activations, then the others, in the same memory.
  std::vector<TransformerArrays> arrays;
  DeviceBatchArrays batch;
};

// The block of passes over micro-batches.
struct DevicePassMemory {
  std::vector<DeviceActivationStash> sets;
  // Of training's passes since they were last taken, and of an evaluation's.
  HeadSums* sums = nullptr;
  HeadSums* evaluation_sums = nullptr;
  // Of either, over all context ranks; null: there are none.
  HeadSums* sums_of_ranks = nullptr;
  // Training's passes have these, too: what routers are judged by, and the loads of all blocks up
  // to the stage's last, [expert_blocks, loads_of_block]; null without experts.
  RouterSums* router_sums = nullptr;
  uint64_t* expert_loads = nullptr;
  uint64_t expert_blocks = 0;
  float* rotary = nullptr;  // [context, D]; null without rotary positions
  DeviceScratch scratch;
  DeviceMemoryBytes bytes;
};

// Return where everything lies in a block of device memory that begins at `base`, aligned to 256
// bytes. They allocate no device memory and touch none: with base null they say how much there will
// be. Pure functions.
DeviceState PlanDeviceState(const DeviceExtents& extents, std::byte* base);
DevicePassMemory PlanDevicePasses(const DeviceExtents& extents, std::byte* base);

// Returns the bytes of both, and of the memory of communicators.
DeviceMemoryBytes PlanDeviceMemory(const DeviceExtents& extents);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_DEVICE_DEVICE_MEMORY_LAYOUT_H_
