#ifndef MUSTER_COMMON_COMPUTE_HOST_OPS_H_
#define MUSTER_COMMON_COMPUTE_HOST_OPS_H_

#include <cstdint>

#include "common/compute/activation_layout.h"
#include "common/compute/host_expert_ops.h"
#include "common/compute/ops.h"

namespace muster {

// Ops on this machine's processors: calls common/kernels at once, on ComputeThreads() threads of
// the calling thread. Its memory is the host's, and nothing fails. For one machine type and number
// of threads, the same bits as those kernels give.
class HostOps final : public Ops {
 public:
  const OpsTraits& traits() const override { return traits_; }
  ComputeStream& stream() override { return stream_; }
  ExpertOps& experts() override { return experts_; }

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
  // Two calls of kernels: the GELU is of `before` as rounded.
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
  const OpsTraits traits_ = {.logits_alignment = kOnHost.logits_alignment};
  HostStream stream_;
  HostExpertOps experts_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_HOST_OPS_H_
