#ifndef MUSTER_WORKER_DEVICE_DEVICE_OPTIONS_H_
#define MUSTER_WORKER_DEVICE_DEVICE_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "common/tensor/dtype.h"
#include "worker/nn/transformer/transformer_arrays.h"
#include "worker/nn/transformer/transformer_shape.h"

namespace muster {

// The side that steps the weights, and so has the optimizer state.
enum class OptimizerPlace {
  kDevice,
  // Somebody else, from gradients that are read back.
  kElsewhere,
};

// How a transformer is computed on a device, and how much at a time.
struct DeviceComputeOptions {
  // Of matrices and what enters and leaves products: kF32, kBf16 or kF16. Master weights, gradients
  // of parameters, the residual stream, norms, logits and the loss are f32 in any case.
  DType type = DType::kBf16;
  Recompute recompute = Recompute::kNone;
  // The largest micro-batch.
  int64_t sequences = 0;
  int64_t length = 0;
  // Rows of which logits exist at a time; 0: as many as make 1 GiB of them.
  int64_t head_rows = 0;
  // GELU within the product before it, and its gradient within the product after it: saves two
  // passes over the widest array, where the library has such products. Only in 16-bit types: next
  // to a product in f32 such a pass is short. Without it, so always in f32, recomputation gives the
  // same bits as none.
  bool fuse_gelu = true;
  OptimizerPlace optimizer = OptimizerPlace::kDevice;
  // For matrix products.
  size_t workspace_bytes = size_t{32} << 20;

  TokenRows rows() const { return {.sequences = sequences, .length = length}; }
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_OPTIONS_H_
