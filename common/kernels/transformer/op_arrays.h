#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_OP_ARRAYS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_OP_ARRAYS_H_

#include <cstdint>

#include "common/kernels/accumulation.h"
#include "common/kernels/transformer/dropout.h"
#include "common/kernels/transformer/head_sums.h"
#include "common/kernels/transformer/loss_terms.h"
#include "common/kernels/transformer/softmax_part.h"
#include "common/tensor/dtype.h"

namespace muster {

// The arguments of a transformer's operations (common/compute/ops.h), which kernels of devices take
// as well. Arrays are row-major, in the memory of the ops; the shape behind each is its own. T is
// the type of computation that the operation names: f32, bf16 or f16. N are the rows: tokens of all
// sequences.

// What keys dropout and changes from micro-batch to micro-batch.
struct DropoutClock {
  uint64_t clock = 0;
  // Global index of the first example of the arrays.
  uint64_t first_example = 0;
};

// The elements that one use of dropout drops (common/kernels/transformer/dropout.h). The values
// that change from micro-batch to micro-batch are read from the ops' memory when the operation
// runs, so that a recorded operation serves all of them.
struct OpDropout {
  uint64_t key = 0;
  uint32_t threshold = 0;
  float scale = 1;
  // Null: nothing is dropped.
  const DropoutClock* clock = nullptr;
  // Where the arrays begin in those of all ranks that compute together: an element of the first
  // example; and, of attention, the first of `heads` query heads, where 0 stands for the arrays'
  // own.
  int64_t first_element = 0;
  int64_t first_head = 0;
  int64_t heads = 0;
  // The rows that the arrays have, where ranks divide sequences: `size`, or rows_per_example, is
  // then that of whole examples, and first_element counts the share's. Not for attention.
  SequenceShare share;
};

// Returns the mask's dropout with `clock` in place of the mask's own.
inline OpDropout DropoutOf(const DropoutMask& mask, const DropoutClock* clock) {
  return {.key = mask.key, .threshold = mask.threshold, .scale = mask.scale, .clock = clock};
}

// The tokens of a micro-batch.
struct EmbeddingTokens {
  const int32_t* tokens = nullptr;  // [N]
  // The results of FillTokenOrder for the tokens and, where they have positions of their own
  // (TokenEmbeddingShape::token_positions) that are learned, for these. EmbedBackward on devices
  // reads them; null on processors.
  const int32_t* order = nullptr;           // [TokenOrderSize(N)]
  const int32_t* position_order = nullptr;  // [TokenOrderSize(N)]
};

struct EmbeddingGradients {
  // The operation adds to both.
  float* table = nullptr;      // [V, C]; null, on processors alone: not made
  float* positions = nullptr;  // [T, C]; null: none
};

struct OpNormInputs {
  const float* x = nullptr;      // [N, C]
  const void* branch = nullptr;  // T [N, C]; null for none: sum = x
  OpDropout dropout;             // of the branch
  // Rows of one example of dropout.
  int64_t rows_per_example = 1;
  const float* gain = nullptr;  // [C]
  const float* bias = nullptr;  // [C]; null: none
};

struct OpNormOutputs {
  float* sum = nullptr;   // [N, C]; null where there is no branch; may be x
  void* out = nullptr;    // T [N, C]; may be the branch
  float* mean = nullptr;  // [N]; not used for kRmsNorm
  float* rstd = nullptr;  // [N]
};

struct OpNormBackwardInputs {
  const float* sum = nullptr;   // [N, C]: OpNormOutputs::sum, or x where there was no branch
  const float* gain = nullptr;  // [C]
  const float* mean = nullptr;  // [N]; not used for kRmsNorm
  const float* rstd = nullptr;  // [N]
  const void* dout = nullptr;   // T [N, C]
  const float* dsum = nullptr;  // [N, C], what reaches the sum by the residual stream; null: none
  // The dropout of forward, for `dbranch`.
  OpDropout dropout;
  int64_t rows_per_example = 1;
};

struct OpNormGradients {
  float* dx = nullptr;      // [N, C]; may be dsum
  void* dbranch = nullptr;  // T [N, C], dx rounded and dropped as forward did; null; may be dout
  // The operation adds to these.
  float* gain = nullptr;  // [C]; null, on processors alone: not made
  float* bias = nullptr;  // [C]; null: none
};

// Arguments of a HeadNorm (head_norm.h), whose layouts are there.
struct HeadNormArrays {
  const float* gain = nullptr;  // [width]
  void* x = nullptr;            // T
  void* kept = nullptr;         // T, what x was; null: nobody reads it
};

struct HeadNormGradientArrays {
  const void* kept = nullptr;  // T, forward's
  const float* gain = nullptr;
  void* dx = nullptr;  // T, the gradient of what forward left in x
  // [width]; the operation adds to it. Null, on processors alone: not made.
  float* gain_gradient = nullptr;
};

// A linear layer with weights [out, in].
struct Linear {
  // T, the type of weights and of what enters and leaves products.
  DType type = DType::kF32;
  int64_t rows = 0;  // N
  int64_t in = 0;
  int64_t out = 0;
  // Elements from one row of y, or of its gradient, to the next; 0: dense.
  int64_t out_stride = 0;
};

struct LinearForwardArrays {
  const void* x = nullptr;       // T [N, in]
  const void* weight = nullptr;  // T [out, in]
  const void* bias = nullptr;    // [out], of the type that OpsTraits::bias says; null: none
  // The type of y: T or, only without a bias, f32.
  enum class Result { kRounded, kF32 };
  Result result = Result::kRounded;
  void* y = nullptr;  // [N, out]
};

struct LinearGradientArrays {
  const void* dy = nullptr;  // T [N, out]
  const void* x = nullptr;   // T [N, in]
  Accumulation accumulation = Accumulation::kAdd;
  float* weight = nullptr;  // [out, in]; null, on processors alone: not made
  float* bias = nullptr;    // [out]; null: none
};

struct LinearGeluArrays {
  const void* x = nullptr;       // T [N, in]
  const void* weight = nullptr;  // T [out, in]
  const void* bias = nullptr;    // as LinearForwardArrays::bias
  void* before = nullptr;        // T [N, out]
  void* after = nullptr;         // T [N, out]
};

struct LinearGeluGradientArrays {
  const void* dy = nullptr;      // T [N, out]
  const void* weight = nullptr;  // T [out, in]
  const void* before = nullptr;  // T [N, in]: what LinearGelu left
  void* dbefore = nullptr;       // T [N, in]
};

struct AttentionArrays {
  const void* qkv = nullptr;   // T [N, (H + 2 KV) D]
  void* out = nullptr;         // T [N, H D]
  float* logsumexp = nullptr;  // [B, H, T]; null: not made
  OpDropout dropout;           // of the probabilities
};

struct AttentionGradientArrays {
  // The arrays of forward.
  const void* qkv = nullptr;
  const void* out = nullptr;
  const float* logsumexp = nullptr;
  OpDropout dropout;
  const void* dout = nullptr;  // as `out`
  void* dqkv = nullptr;        // as `qkv`, and not qkv itself
};

// Arguments of an AttentionPart (attention.h), whose layouts are there.
struct AttentionPartArrays {
  const void* queries = nullptr;      // T, of the chunk: [B, query_rows] rows of qkv_stride
  const void* keys_values = nullptr;  // T, of the chunk: [B, key_rows] rows of key_stride
  // kAdd: `out` and `logsumexp` hold the result of other keys of the same queries, with which the
  // part's is merged.
  Accumulation accumulation = Accumulation::kWrite;
  float* out = nullptr;        // [B, query_rows] rows of out_stride
  float* logsumexp = nullptr;  // [B, H, query_rows]
  OpDropout dropout;           // of the probabilities
};

struct AttentionPartGradientArrays {
  // The arrays of forward; logsumexp is that of all keys.
  const void* queries = nullptr;
  const void* keys_values = nullptr;
  const float* logsumexp = nullptr;
  OpDropout dropout;
  const float* delta = nullptr;  // [B, H, query_rows]: AttentionDelta's
  const void* dout = nullptr;    // T [B, query_rows] rows of out_stride
  // The operation adds to these.
  float* dqueries = nullptr;      // [B, query_rows, H D]
  float* dkeys_values = nullptr;  // [B, key_rows, 2 KV D]
};

// Rows that are copied, with so many elements from one to the next on either side.
struct StridedRows {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t from_stride = 0;
  int64_t to_stride = 0;
};

struct CrossEntropyShape {
  int64_t rows = 0;
  // Columns of logits and their gradient.
  int64_t vocabulary = 0;
  // Columns that are tokens. Those behind are padding: they have no probability, and gradient 0.
  int64_t tokens = 0;
  // Elements of f32 from one row of logits to the next: OpsTraits::LogitsStride of the vocabulary.
  int64_t logits_stride = 0;
  // The loss has these besides cross entropy.
  LossTerms terms;
};

struct CrossEntropyArrays {
  const float* logits = nullptr;    // [rows, vocabulary]
  const int32_t* labels = nullptr;  // [rows], in [0, tokens) or -1: no loss, a gradient of zeros
  // T, in the memory of the logits: each row begins where its logits do. Null: not made.
  void* gradient = nullptr;
  // The factor of the gradient, in the ops' memory; null: 1.
  const float* gradient_scale = nullptr;
  // Record in the ops' memory to which the sums are added; null: not made.
  HeadSums* sums = nullptr;
};

// The columns of logits that one of several ranks has, in order of rank (VocabularyShape).
struct VocabularyShareShape {
  // Of this rank's columns; `tokens` may be 0.
  CrossEntropyShape columns;
  // The token of the first column.
  int32_t first_token = 0;
};

struct VocabularyShareArrays {
  // As in CrossEntropyArrays, except that labels are tokens of all ranks.
  CrossEntropyArrays columns;
  int ranks = 1;
  const SoftmaxPart* parts = nullptr;  // [ranks, rows]
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_OP_ARRAYS_H_
