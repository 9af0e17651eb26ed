#ifndef MUSTER_COMMON_COMPUTE_TRANSFORMER_ACTIVATIONS_H_
#define MUSTER_COMMON_COMPUTE_TRANSFORMER_ACTIVATIONS_H_

#include <cstdint>
#include <vector>

#include "common/kernels/moe/expert_arrays.h"
#include "common/kernels/transformer/softmax_part.h"

namespace muster {

// The arrays of one micro-batch on its way through a transformer, on processors and on devices. All
// are row-major, and all but the logits dense; N = B T tokens, in a context group of c ranks those
// of this one, C is the width, A the columns of attention's result (H heads'), Q the columns of
// queries, keys and values, F the feed-forward width, U the columns of its first matrix (F, or 2 F
// for SwiGLU), H the query heads, P the columns of queries and keys, V the rows of the vocabulary,
// padding included. T is the type of computation, f32, bf16 or f16. In a tensor group of t ranks A,
// Q, F, U, H and V are the rank's own; and n are the rank's own rows, ceil(N / t) where ranks share
// them out, otherwise N. Alone, A = C and n = N.

// What a norm of the residual stream keeps for its backward pass.
struct NormActivations {
  float* sum = nullptr;   // [n, C]
  float* mean = nullptr;  // [n]
  float* rstd = nullptr;  // [n]
};

// The arrays with which ranks that share out the tokens of sequences attend to those of one
// another; none without such ranks. E = Q - A are the columns of keys and values, which are dense
// here. They lie in a block's own `activated` and `up` where they find room, as these are written
// later and read earlier; unless backward is split. The others are one for all blocks.
struct ContextArrays {
  // T. RING: [N, E], one rank's at hand, and the next one's on their way. GATHER: [c N, E], those
  // of all ranks, and null.
  void* keys_values[2] = {};
  // [N, A]: attention's result as far as it is known, unless T is f32; in backward the sums of
  // queries' gradients.
  float* sums = nullptr;
  // In training alone: [B, H, T], and the sums of the gradients of keys and values. RING: [N, E]
  // each, of this rank's own; what comes; two by turns of those at hand. GATHER: [c N, E], its part
  // of those of all.
  float* delta = nullptr;
  float* gradients[4] = {};
  // HEADS alone, T of c N whole sequences' tokens and the heads of this rank: queries, keys and
  // values, [c N, Q' / c], turned; attention's result, [c N, A / c]; and in training the gradients
  // of the former. Q' is Q, with c key-value heads where there are fewer. What recomputation does
  // not make again is the block's own.
  void* head_qkv = nullptr;
  void* head_attention = nullptr;
  void* head_gradients = nullptr;
};

// The rows that a rank takes for its experts, where ranks share these out: those of the first round
// (ExpertDispatch), M at most, of the E / e experts that are the rank's.
struct HostedRows {
  void* x = nullptr;           // T [M, C], in order of expert
  float* weights = nullptr;    // [M]
  int32_t* offsets = nullptr;  // [E / e + 1]
};

// The arrays of a block whose feed-forward layer is made of experts. Each of the n rows goes to k
// of E experts, which makes R = n k rows; F' and U' are an expert's widths. In such a block U, F,
// `up` and `activated` are the shared expert's, or nothing. With expert ranks, e in number, an
// expert's `up` and `activated` have M rows in the place of R, those of HostedRows.
struct ExpertActivations {
  float* logits = nullptr;    // [n, E]
  float* weights = nullptr;   // [n, k]
  int32_t* chosen = nullptr;  // [n, k]
  ExpertRows rows;
  float* counts = nullptr;  // [runs, E]; null: choices are not counted
  // These exist where choices may be dropped. `placed` [n, k] has each choice's expert, or E;
  // `choices` [parts + d, E] those of each part of the data rank's tokens, then those of each of d
  // data ranks (ChoiceLimit).
  int32_t* placed = nullptr;
  float* choices = nullptr;
  // With expert ranks, [e, E + 1]: rows.offsets of every rank; and what this rank takes.
  int32_t* rank_offsets = nullptr;
  HostedRows hosted;
  void* up = nullptr;         // T [R, U'], before the activation function
  void* activated = nullptr;  // T [R, F'], weighted
  // The logits of the shared expert's gate and what it multiplies; null without a gate.
  float* gate_logits = nullptr;  // [n]
  void* shared = nullptr;        // T [n, C]
};

// What one block's forward pass writes and its backward pass reads. Blocks may share those that
// recomputation makes again.
struct BlockActivations {
  NormActivations norm1;
  void* norm1_out = nullptr;  // T [n, C]
  // T [N, Q], turned. Under HEADS it has room for [N, Q'] and is overwritten by attention.
  void* qkv = nullptr;
  // T [N, P], queries and keys before they are normalised; null: they are not, or nobody reads it.
  void* unnormed = nullptr;
  void* attention = nullptr;   // T [N, A]
  float* logsumexp = nullptr;  // [B, H, T]
  NormActivations norm2;
  void* norm2_out = nullptr;  // T [n, C]
  void* up = nullptr;         // T [N, U], before the activation function
  void* activated = nullptr;  // T [N, F]
  ExpertActivations experts;
  ContextArrays context;
};

// The gradients with regard to what a block's products give, T each. Those of `proj` and `down` are
// gradients of the branches that they end; unless those are the stream's (see ResidualNorm). With a
// split backward each block has its own, except expert_up with expert ranks; otherwise they lie in
// memory of all blocks, also that of BlockScratch, one over another: each has been read when the
// next is made.
struct BlockProductGradients {
  void* qkv = nullptr;   // [N, Q]
  void* proj = nullptr;  // [n, C]
  void* up = nullptr;    // [N, U]
  void* down = nullptr;  // [n, C]; made by the unit after the block
  // A block of experts has these of `up`, the router's logits and the shared expert's gate.
  void* expert_up = nullptr;    // [R, U'], with expert ranks [M, U']
  void* router = nullptr;       // [n, E]
  void* shared_gate = nullptr;  // [n]
};

struct LanguageHeadActivations {
  NormActivations norm;
  void* norm_out = nullptr;  // T [n, C]
  // [R, V], rows OpsTraits::LogitsStride(V) elements apart: those made last; in training then their
  // gradient in T, each row where its logits began.
  float* logits = nullptr;
  // R: rows of which logits exist at a time.
  int64_t logit_rows = 0;
  // [R] of this rank, and [t, R] of all ranks; null without a tensor group.
  SoftmaxPart* own_parts = nullptr;
  SoftmaxPart* parts = nullptr;
};

// What adapters of rank r are computed in, some rows at a time; W is the widest of their inputs and
// outputs. Null without adapters.
struct AdapterScratch {
  int64_t rows = 0;
  float* wide = nullptr;            // [rows, W]
  float* product = nullptr;         // [rows, W]
  void* input = nullptr;            // T [rows, W]
  float* low = nullptr;             // [rows, r]
  void* narrow = nullptr;           // T [rows, r]
  void* narrow_gradient = nullptr;  // T [rows, r]
};

// One for all blocks of a micro-batch.
struct BlockScratch {
  // T [n, C]. Forward: the branch that a block leaves. Backward: its gradient, on the way in and
  // out; unless that is the stream's (see ResidualNorm).
  void* branch = nullptr;
  // T, of the largest of [N, max(F, A)], [R, F'] (with expert ranks [M, F']) and [n, C].
  // Overwritten by Backward; Forward does not use it. Null in an evaluation.
  void* inner = nullptr;
  // Null unless there are experts, T [R, C]: tokens as rows of experts, or results, or gradients.
  void* expert_rows = nullptr;
  // These exist with expert ranks. Own rows in order of expert have what comes back, T [R, C], and
  // weights, [R]. The rows that this rank takes have results or gradients, T [M, C], and the
  // numbers 0 to M - 1.
  void* returned_rows = nullptr;
  float* row_weights = nullptr;
  void* hosted_rows = nullptr;
  int32_t* hosted_numbers = nullptr;
  // The gradients of weights of both, in training alone: [R] and [M].
  float* row_dweights = nullptr;
  float* hosted_dweights = nullptr;
  // Experts have these in training alone: the gradient of the weights, [n, k], and of the shared
  // expert's input, T [n, C].
  float* weights_gradient = nullptr;
  void* shared_gradient = nullptr;
  // [t n, C] of f32: all rows, gathered or to be summed, in either type. Null unless ranks share
  // out rows.
  void* gathered = nullptr;
  AdapterScratch adapter;
};

// How context ranks come by the keys and values of one another.
enum class ContextExchange {
  // They travel from rank to rank while each computes with those at hand.
  kRing,
  // They are gathered before a block attends.
  kGather,
  // Each attends whole sequences for its part of the query heads.
  kHeads,
};

struct TransformerArrays {
  std::vector<BlockActivations> blocks;
  LanguageHeadActivations head;
  BlockScratch scratch;
  // By block; none in an evaluation.
  std::vector<BlockProductGradients> product_gradients;
  // The gradient of the residual stream, [n, C]; null in an evaluation.
  float* stream_gradient = nullptr;
};

// What forward leaves out and backward makes again first, to the same bits.
enum class Recompute {
  kNone,
  // All but matrix products: norms' outputs, attention, the activation function.
  kSelective,
  // All but each layer unit's input.
  kFull,
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_TRANSFORMER_ACTIVATIONS_H_
