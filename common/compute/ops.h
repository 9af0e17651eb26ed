#ifndef MUSTER_COMMON_COMPUTE_OPS_H_
#define MUSTER_COMMON_COMPUTE_OPS_H_

#include <cstdint>

#include "common/base/round_up.h"
#include "common/compute/expert_ops.h"
#include "common/compute/stream.h"
#include "common/kernels/transformer/attention.h"
#include "common/kernels/transformer/head_norm.h"
#include "common/kernels/transformer/norm.h"
#include "common/kernels/transformer/op_arrays.h"
#include "common/kernels/transformer/rotary.h"
#include "common/kernels/transformer/token_embedding.h"
#include "common/tensor/dtype.h"

namespace muster {

// Conventions of one kind of ops that their callers follow. Const for the life of the ops.
struct OpsTraits {
  // The bias that LinearForward and LinearGelu take: the f32 master values, or a copy in the type
  // of the weights.
  enum class Bias { kMaster, kRounded };
  Bias bias = Bias::kMaster;
  // Rows of logits begin at multiples of so many elements of f32.
  int64_t logits_alignment = 1;

  int64_t LogitsStride(int64_t vocabulary) const { return RoundUp(vocabulary, logits_alignment); }
};

// The arithmetic of a transformer on one kind of hardware. Layers are written over it, once for
// processors and devices. An operation means what the kernel of its name in common/kernels means,
// with the same shapes. Arrays overlap only where op_arrays.h says so. Types are f32, bf16 and f16;
// sums are f32.
//
// Operations only queue, in the order of stream(): nothing is allocated, nothing waits, and a
// failure is kept by the stream. What changes from micro-batch to micro-batch lies behind pointers,
// so that queued operations can be recorded and run again. The same calls with the same values give
// the same bits. Extents are at least 1. Used by one thread at a time.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual const OpsTraits& traits() const = 0;
  virtual ComputeStream& stream() = 0;
  // Returns the operations of experts, which queue in the same order.
  virtual ExpertOps& experts() = 0;

  // x[i] = +0 for i < n.
  virtual void Zero(int64_t n, float* x) = 0;
  // y[i] = x[i] for i < n. One type is f32 and the other of 16 bits, or both are the same.
  virtual void Convert(int64_t n, DType from, const void* x, DType to, void* y) = 0;

  // The same of rows with gaps between them.
  virtual void ConvertRows(const StridedRows& rows, DType from, const void* x, DType to,
                           void* y) = 0;
  // y[i] += x[i] for i < n.
  virtual void Add(int64_t n, const float* x, float* y) = 0;
  // x[i] *= factor for i < n.
  virtual void Scale(int64_t n, float factor, float* x) = 0;

  // out [N, C] = table's rows of the tokens + positions' rows (null: none), in f32.
  virtual void Embed(const TokenEmbeddingShape& shape, const EmbeddingTokens& tokens,
                     const float* table, const float* positions, float* out) = 0;
  virtual void EmbedBackward(const TokenEmbeddingShape& shape, const EmbeddingTokens& tokens,
                             const float* dout, const EmbeddingGradients& gradients) = 0;
  // Drops from x, in place, `elements` elements of examples of `size`; backward does the same to
  // gradients. REQUIRES: dropout.clock is not null.
  virtual void Dropout(const OpDropout& dropout, int64_t elements, int64_t size, float* x) = 0;

  // sum = x + dropout(branch); out = norm(sum) · gain + bias.
  virtual void Norm(const NormShape& shape, DType type, const OpNormInputs& in,
                    const OpNormOutputs& out) = 0;
  virtual void NormBackward(const NormShape& shape, DType type, const OpNormBackwardInputs& in,
                            const OpNormGradients& gradients) = 0;

  // Normalises heads of queries or of keys in place.
  virtual void HeadNorm(const HeadNormShape& shape, DType type, const HeadNormArrays& arrays) = 0;
  virtual void HeadNormBackward(const HeadNormShape& shape, DType type,
                                const HeadNormGradientArrays& arrays) = 0;

  // y = x · weightᵀ + bias.
  virtual void LinearForward(const Linear& linear, const LinearForwardArrays& arrays) = 0;
  // dx T [N, in] = dy T [N, out] · weight T [out, in].
  virtual void LinearBackwardInput(const Linear& linear, const void* dy, const void* weight,
                                   void* dx) = 0;
  // weight = or += dyᵀ · x; bias = or += the rows' sum of dy.
  virtual void LinearBackwardWeights(const Linear& linear, const LinearGradientArrays& arrays) = 0;
  // before = x · weightᵀ + bias, dense; after = gelu(before), perhaps of what `before` was before
  // it was rounded.
  virtual void LinearGelu(const Linear& linear, const LinearGeluArrays& arrays) = 0;
  // dbefore = (dy · weight) ⊙ gelu'(before): the gradient at the input of the GELU whose result is
  // this layer's input.
  virtual void LinearGeluBackwardInput(const Linear& linear,
                                       const LinearGeluGradientArrays& arrays) = 0;

  virtual void Gelu(DType type, int64_t n, const void* x, void* y) = 0;
  virtual void SwiGlu(DType type, int64_t rows, int64_t F, const void* gate_up, void* y) = 0;
  virtual void SwiGluBackward(DType type, int64_t rows, int64_t F, const void* gate_up,
                              const void* dy, void* d_gate_up) = 0;
  virtual void Rotary(const RotaryShape& shape, DType type, const float* table, void* x) = 0;
  virtual void RotaryBackward(const RotaryShape& shape, DType type, const float* table,
                              void* dx) = 0;

  virtual void Attention(const AttentionShape& shape, DType type,
                         const AttentionArrays& arrays) = 0;
  virtual void AttentionBackward(const AttentionShape& shape, DType type,
                                 const AttentionGradientArrays& arrays) = 0;
  // The same by parts of queries and keys, where ranks divide sequences: forward of each part, then
  // delta f32 [B, H, rows] from `out` and `dout`, T [B, rows] of out_stride, and backward of each
  // part.
  virtual void AttentionOfPart(const AttentionShape& shape, const AttentionPart& part, DType type,
                               const AttentionPartArrays& arrays) = 0;
  virtual void AttentionDelta(const AttentionShape& shape, int64_t rows, DType type,
                              const void* out, const void* dout, float* delta) = 0;
  virtual void AttentionPartBackward(const AttentionShape& shape, const AttentionPart& part,
                                     DType type, const AttentionPartGradientArrays& arrays) = 0;

  // Softmax cross entropy of rows of logits: sums of the loss and of right predictions, and
  // gradient = scale · (softmax - onehot of the label), with what the shape's terms add, in `type`.
  virtual void CrossEntropy(const CrossEntropyShape& shape, DType type,
                            const CrossEntropyArrays& arrays) = 0;
  // The same where ranks divide the vocabulary: parts [rows] of this rank's columns, and then what
  // all ranks' parts make of them. Every rank adds the same sums.
  virtual void SoftmaxParts(const VocabularyShareShape& shape, const float* logits,
                            const int32_t* labels, SoftmaxPart* parts) = 0;
  virtual void CrossEntropyOfParts(const VocabularyShareShape& shape, DType type,
                                   const VocabularyShareArrays& arrays) = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_OPS_H_
