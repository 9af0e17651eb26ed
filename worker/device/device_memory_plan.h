#ifndef MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_
#define MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/kernels/device/device_cross_entropy.h"
#include "common/kernels/device/device_dropout.h"
#include "common/kernels/device/device_optimizer.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"

namespace muster {

// Letters as in worker/nn/transformer_arrays.h; N are the tokens of the largest micro-batch. Arrays
// of a smaller one begin where the largest's do.

struct DeviceNormArrays {
  float* sum = nullptr;   // [N, C]
  float* mean = nullptr;  // [N]
  float* rstd = nullptr;  // [N]
};

// What a block's forward pass leaves for its backward pass; blocks share what recomputation makes
// again.
struct DeviceBlockArrays {
  DeviceNormArrays norm1;
  void* norm1_out = nullptr;   // [N, C]
  void* qkv = nullptr;         // [N, Q], turned
  void* attention = nullptr;   // [N, C]
  float* logsumexp = nullptr;  // [B, H, T]
  DeviceNormArrays norm2;
  void* norm2_out = nullptr;  // [N, C]
  void* up = nullptr;         // [N, U]
  void* activated = nullptr;  // [N, F]
};

// Everything on the device but the parameters' flat spaces.
struct DeviceActivations {
  // What changes from micro-batch to micro-batch; copied from the host as one piece.
  int32_t* tokens = nullptr;       // [N]
  int32_t* labels = nullptr;       // [N]
  int32_t* token_order = nullptr;  // [TokenOrderSize(N)]
  DropoutClock* clock = nullptr;

  float* rotary = nullptr;  // [context, D]; null without rotary positions
  std::vector<DeviceBlockArrays> blocks;
  DeviceNormArrays head_norm;
  void* head_norm_out = nullptr;  // [N, C]
  void* logits = nullptr;         // [R, V], R = HeadRows
  float* losses = nullptr;        // [R]
  int32_t* correct = nullptr;     // [R]

  void* branch = nullptr;            // [N, C]
  void* inner = nullptr;             // [N, max(F, C)]
  void* wide = nullptr;              // [N, max(Q, U)]
  float* stream_gradient = nullptr;  // [N, C]
  float* attention_scratch = nullptr;
  float* norm_scratch = nullptr;
  float* row_sums_scratch = nullptr;
  void* workspace = nullptr;
};

// What lasts from step to step.
struct DeviceState {
  // Flat, f32.
  float* weights = nullptr;
  float* gradients = nullptr;
  // Null where the optimizer is elsewhere.
  float* m = nullptr;
  float* v = nullptr;
  // The weights in the type of computation; null for f32.
  void* rounded = nullptr;
  // Of the step, and of evaluations.
  DeviceHeadSums* sums = nullptr;
  DeviceHeadSums* evaluation_sums = nullptr;
  GradientControl* control = nullptr;
  // With and without weight decay.
  DeviceAdamStep* adam = nullptr;
  float* loss_scale = nullptr;
  double* squares = nullptr;
  double* squares_scratch = nullptr;
};

// Bytes by what they are for, padding included; `total` is all of them.
struct DeviceMemoryBytes {
  size_t weights = 0;
  size_t rounded_weights = 0;
  size_t gradients = 0;
  size_t optimizer_slots = 0;
  // Kept from forward to backward.
  size_t activations = 0;
  size_t logits = 0;
  size_t scratch = 0;
  size_t total = 0;
};

struct DeviceMemoryPlan {
  DeviceState state;
  DeviceActivations activations;
  DeviceMemoryBytes bytes;
};

// Rows of logits at a time.
int64_t HeadRows(const TransformerShape& shape, const DeviceComputeOptions& options);

// Bytes of DeviceActivations' first four arrays, one behind the other, each aligned.
size_t DeviceBatchBytes(int64_t tokens);
// Where those four begin.
struct DeviceBatchOffsets {
  size_t tokens = 0;
  size_t labels = 0;
  size_t token_order = 0;
  size_t clock = 0;
};
DeviceBatchOffsets DeviceBatchOffsetsOf(int64_t tokens);

// Where everything lies in one block of device memory that begins at `base`, aligned to 256 bytes.
// Allocates nothing and touches no memory: with base null it says how much there will be. A pure
// function.
DeviceMemoryPlan PlanDeviceMemory(const TransformerShape& shape, const DeviceParameters& parameters,
                                  const DeviceComputeOptions& options, std::byte* base);

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_MEMORY_PLAN_H_
