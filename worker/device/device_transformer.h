#ifndef MUSTER_WORKER_DEVICE_DEVICE_TRANSFORMER_H_
#define MUSTER_WORKER_DEVICE_DEVICE_TRANSFORMER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/pass.h"
#include "common/device/device.h"
#include "common/device/matmul/device_matmul.h"
#include "common/kernels/device/device_dropout.h"
#include "common/kernels/device/device_norm.h"
#include "common/kernels/transformer/token_embedding.h"
#include "worker/device/device_memory_plan.h"
#include "worker/device/device_options.h"
#include "worker/device/device_parameters.h"
#include "worker/nn/transformer/transformer_arrays.h"
#include "worker/nn/transformer/transformer_shape.h"

namespace muster {

// Queues a transformer's mathematics on a device, layer unit by layer unit, as
// worker/models/transformer.h computes it on the CPU: the same tensors, arrays, kernels and order,
// but that the head runs forward and backward some rows of logits at a time, so that logits are
// computed once. Gradients are of the loss *sum* times state.loss_scale, and are added to.
//
// Calls only queue: nothing is allocated, nothing waits, and no value of a batch is an argument, so
// that what a call queues can be captured in a graph and launched for other batches of the same
// extents. Errors are those of matrix products; kernels' go to the stream.
class DeviceTransformer {
 public:
  // Everything outlives this. `plan` is PlanDeviceMemory's for these options, in memory that is
  // there. `seed` keys dropout.
  DeviceTransformer(const TransformerShape& shape, const DeviceParameters& parameters,
                    const DeviceComputeOptions& options, const DeviceMemoryPlan& plan,
                    uint64_t seed, DeviceMatmul& matmul);

  // REQUIRES: at most the options' rows. The loss and what was predicted right are added to
  // state.sums, or state.evaluation_sums. kTraining also adds the gradients of the head's matrix,
  // as soon as the logits of some rows are there.
  absl::Status Forward(DeviceStream& stream, const TokenRows& rows, Pass pass);

  // One unit after the other, from the last, after a Forward of kTraining.
  absl::Status Backward(DeviceStream& stream, const TokenRows& rows, int unit);

  // Whether products with GELU in them are used: in 16-bit types as the options say, until the
  // library turns out to have none, in the midst of a pass.
  bool FusesGelu() const;

 private:
  // What one linear layer is called with.
  struct Linear {
    LayerTensors tensors;
    int64_t in = 0;
    int64_t out = 0;
  };

  Linear Qkv(int64_t layer) const;
  Linear Proj(int64_t layer) const;
  Linear Up(int64_t layer) const;
  Linear Down(int64_t layer) const;

  const void* MatrixOf(int tensor) const;
  // Biases are of the type of computation, as cuBLASLt wants them.
  const void* BiasOf(int tensor) const;
  const float* VectorOf(int tensor) const;
  float* GradientOf(int tensor) const;

  // The dropout of a use; none in evaluations.
  DeviceDropout DropoutOf(const std::string& name, float probability, Pass pass) const;
  // Of the embedding and of branches.
  DeviceDropout DropoutOf(const std::string& name, Pass pass) const;
  NormShape NormOf(int64_t rows) const;

  // kept.sum = in + dropout(branch), out = norm(kept.sum); without a branch, of kept.sum as it is.
  void Norm(DeviceStream& stream, const TokenRows& rows, const LayerTensors& tensors,
            const float* in, const void* branch, const DeviceDropout& dropout,
            const NormActivations& kept, void* out) const;
  enum class Upstream { kNone, kStream };
  void NormBackward(DeviceStream& stream, const TokenRows& rows, const LayerTensors& tensors,
                    const DeviceDropout& dropout, const NormActivations& kept,
                    Upstream upstream) const;
  // Whether the gradient of a branch is the stream's own: no conversion, no dropout between.
  bool StreamIsBranch() const;
  const void* BranchGradient() const;

  absl::Status LinearForward(DeviceStream& stream, const Linear& linear, int64_t rows,
                             const void* x, void* y);
  absl::Status LinearBackward(DeviceStream& stream, const Linear& linear, int64_t rows,
                              const void* dy, const void* x, void* dx);
  absl::Status WeightGradient(DeviceStream& stream, const Linear& linear, int64_t rows,
                              const void* dy, const void* x);

  absl::Status ForwardBlock(DeviceStream& stream, const TokenRows& rows, int64_t layer, Pass pass);
  absl::Status ComputeQkv(DeviceStream& stream, const TokenRows& rows, int64_t layer);
  void Attend(DeviceStream& stream, const TokenRows& rows, int64_t layer, Pass pass);
  absl::Status ComputeUp(DeviceStream& stream, const TokenRows& rows, int64_t layer);
  void Activate(DeviceStream& stream, const TokenRows& rows, int64_t layer);
  absl::Status Again(DeviceStream& stream, const TokenRows& rows, int64_t layer);
  absl::Status BackwardBlock(DeviceStream& stream, const TokenRows& rows, int64_t layer);
  absl::StatusOr<const void*> ActivationGradient(DeviceStream& stream, const TokenRows& rows,
                                                 int64_t layer);
  absl::Status BackwardFeedForward(DeviceStream& stream, const TokenRows& rows, int64_t layer);
  absl::Status BackwardAttention(DeviceStream& stream, const TokenRows& rows, int64_t layer);
  absl::Status ForwardHead(DeviceStream& stream, const TokenRows& rows, Pass pass);

  TokenEmbeddingShape EmbeddingOf(const TokenRows& rows) const;
  void Embed(DeviceStream& stream, const TokenRows& rows, Pass pass) const;
  void EmbedBackward(DeviceStream& stream, const TokenRows& rows) const;

  const TransformerShape shape_;
  const DeviceParameters& parameters_;
  const DeviceComputeOptions options_;
  const DeviceState state_;
  const DeviceBatchArrays batch_;
  const float* const rotary_;
  const TransformerArrays arrays_;
  const DeviceScratch scratch_;
  const uint64_t seed_;
  DeviceMatmul& matmul_;
  // Until the library says that it has no such product.
  bool gelu_can_be_fused_ = true;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_TRANSFORMER_H_
