#ifndef MUSTER_COMMON_COMPUTE_DEVICE_OPS_H_
#define MUSTER_COMMON_COMPUTE_DEVICE_OPS_H_

#include <cstddef>
#include <cstdint>

#include "common/compute/activation_layout.h"
#include "common/compute/device_compute_stream.h"
#include "common/compute/device_expert_ops.h"
#include "common/compute/device_workspace.h"
#include "common/compute/ops.h"
#include "common/device/device.h"
#include "common/kernels/device/device_cross_entropy.h"
#include "common/kernels/device/matmul/device_matmul.h"

namespace muster {

struct DeviceOpsOptions {
  // Device memory of DeviceOpsScratch bytes, aligned to 256.
  void* scratch = nullptr;
  size_t scratch_bytes = 0;
  // kFused makes GELU and its gradient part of products in 16-bit types, where the library has such
  // products. That saves two passes over the widest array; next to a product in f32 such a pass is
  // short. Apart, so always in f32, recomputation gives the same bits as none.
  enum class Gelu { kFused, kApart };
  Gelu gelu = Gelu::kFused;
};

// Ops on a device: launches common/kernels/device, and products of `matmul`, on one stream. Its
// memory is the device's. Failures, of products too, go to the stream. The same bits every time.
// REQUIRES: DeviceAttentionTakes the shapes of attention (device_attention.h).
class DeviceOps final : public Ops {
 public:
  // `stream` and `matmul` outlive this.
  DeviceOps(const DeviceOpsOptions& options, DeviceStream& stream, DeviceMatmul& matmul);

  const OpsTraits& traits() const override { return traits_; }
  ComputeStream& stream() override { return compute_stream_; }
  ExpertOps& experts() override { return experts_; }

  // Returns whether products with GELU in them are used. Turns false for good when the library
  // proves to have none; all that is queued from then on is made by other products.
  bool fuses_gelu() const { return fuses_gelu_; }

  void Zero(int64_t n, float* x) override;
  void Convert(int64_t n, DType from, const void* x, DType to, void* y) override;
  void ConvertRows(const StridedRows& rows, DType from, const void* x, DType to, void* y) override;
  void Add(int64_t n, const float* x, float* y) override;
  void Scale(int64_t n, float factor, float* x) override;
  void Embed(const TokenEmbeddingShape& shape, const EmbeddingTokens& tokens, const float* table,
             const float* positions, float* out) override;
  void EmbedBackward(const TokenEmbeddingShape& shape, const EmbeddingTokens& tokens,
                     const float* dout, const EmbeddingGradients& gradients) override;
  void Dropout(const OpDropout& dropout, int64_t elements, int64_t size, float* x) override;
  void Norm(const NormShape& shape, DType type, const OpNormInputs& in,
            const OpNormOutputs& out) override;
  void NormBackward(const NormShape& shape, DType type, const OpNormBackwardInputs& in,
                    const OpNormGradients& gradients) override;
  void HeadNorm(const HeadNormShape& shape, DType type, const HeadNormArrays& arrays) override;
  void HeadNormBackward(const HeadNormShape& shape, DType type,
                        const HeadNormGradientArrays& arrays) override;
  void LinearForward(const Linear& linear, const LinearForwardArrays& arrays) override;
  void LinearBackwardInput(const Linear& linear, const void* dy, const void* weight,
                           void* dx) override;
  void LinearBackwardWeights(const Linear& linear, const LinearGradientArrays& arrays) override;
  void LinearGelu(const Linear& linear, const LinearGeluArrays& arrays) override;
  void LinearGeluBackwardInput(const Linear& linear,
                               const LinearGeluGradientArrays& arrays) override;
  void Gelu(DType type, int64_t n, const void* x, void* y) override;
  void SwiGlu(DType type, int64_t rows, int64_t F, const void* gate_up, void* y) override;
  void SwiGluBackward(DType type, int64_t rows, int64_t F, const void* gate_up, const void* dy,
                      void* d_gate_up) override;
  void Rotary(const RotaryShape& shape, DType type, const float* table, void* x) override;
  void RotaryBackward(const RotaryShape& shape, DType type, const float* table, void* dx) override;
  void Attention(const AttentionShape& shape, DType type, const AttentionArrays& arrays) override;
  void AttentionBackward(const AttentionShape& shape, DType type,
                         const AttentionGradientArrays& arrays) override;
  void AttentionOfPart(const AttentionShape& shape, const AttentionPart& part, DType type,
                       const AttentionPartArrays& arrays) override;
  void AttentionDelta(const AttentionShape& shape, int64_t rows, DType type, const void* out,
                      const void* dout, float* delta) override;
  void AttentionPartBackward(const AttentionShape& shape, const AttentionPart& part, DType type,
                             const AttentionPartGradientArrays& arrays) override;
  void CrossEntropy(const CrossEntropyShape& shape, DType type,
                    const CrossEntropyArrays& arrays) override;
  void SoftmaxParts(const VocabularyShareShape& shape, const float* logits, const int32_t* labels,
                    SoftmaxPart* parts) override;
  void CrossEntropyOfParts(const VocabularyShareShape& shape, DType type,
                           const VocabularyShareArrays& arrays) override;

 private:
  RowLosses Losses(int64_t rows);
  void Run(const MatmulProblem& problem, const MatmulOperands& operands);
  // Queues a product with GELU in it, of rows of so many elements. Returns false, and queues
  // nothing, where there is no such product.
  bool RunFused(const MatmulProblem& problem, const MatmulOperands& operands, int64_t columns);

  const OpsTraits traits_ = {.bias = OpsTraits::Bias::kRounded,
                             .logits_alignment = kOnDevice.logits_alignment};
  DeviceWorkspace scratch_;
  DeviceStream& stream_;
  DeviceComputeStream compute_stream_;
  DeviceMatmul& matmul_;
  DeviceExpertOps experts_;
  bool fuses_gelu_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_DEVICE_OPS_H_
