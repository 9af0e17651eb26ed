#ifndef MUSTER_COMMON_KERNELS_MOE_EXPERT_ARRAYS_H_
#define MUSTER_COMMON_KERNELS_MOE_EXPERT_ARRAYS_H_

#include <cstdint>

#include "common/kernels/accumulation.h"
#include "common/tensor/dtype.h"

namespace muster {

// The shapes and arrays of feed-forward layers that are made of experts. N tokens go to k of E
// experts each, which makes R = N k rows. Assignment n k + j is token n's j-th expert. Rows are
// ordered by expert, and within one by token. T is the type of computation, f32, bf16 or f16;
// arrays without a type here are f32, as are all scores. No array overlaps another, unless it says
// so.

// The way from a token's logits to its experts and their weights. s is the softmax of its logits,
// or the logistic function of each. The k experts with the highest s + bias are chosen, where bias
// changes nothing else; of equal ones the lower index. With several groups, equal parts of the
// experts in order, these are chosen within the `top_groups` groups whose two highest s + bias
// (one, in a group of one) have the highest sum; of equal ones the lower index. A NaN is below
// every number. The weight of a chosen expert is scaling · s, or with `normalize` scaling · s / Z,
// Z the sum of s over the chosen, to which kSigmoid adds 1e-20.
// REQUIRES: E is a multiple of the groups, and k at most the experts of `top_groups` of them.
struct RouterShape {
  enum class Scores { kSoftmax, kSigmoid };
  int64_t tokens = 0;   // N
  int64_t experts = 0;  // E
  int64_t top_k = 1;    // k
  Scores scores = Scores::kSoftmax;
  bool normalize = false;
  float scaling = 1;
  int64_t groups = 1;
  int64_t top_groups = 1;

  int64_t rows() const { return tokens * top_k; }  // R
};

struct RouteArrays {
  const float* logits = nullptr;  // [N, E]
  const float* bias = nullptr;    // [E]; null: zeros
  int32_t* chosen = nullptr;      // [N, k], the highest s + bias first
  float* weights = nullptr;       // [N, k]
};

// The tokens that losses of routers count: those with a label. They share counts with their
// neighbours, `run` tokens each, such as a sequence. The arrays may be a part of all tokens, from
// number `first` on, which need not begin or end with a run.
struct CountedTokens {
  const int32_t* labels = nullptr;  // [N]; below 0: none. Null: every token counts.
  int64_t first = 0;                // Token n is in run (first + n) / run.
  int64_t run = 0;
  int64_t runs = 0;  // Of all tokens.
};

// Consecutive tokens [first, end) of the arrays, and the choices before them and of all tokens that
// share a limit: an expert takes at most ceil(factor · choices / E) of these, in order of token.
// Counts are whole numbers; the mean and its product with the factor are f32.
struct ChoiceLimit {
  float factor = 1;
  int64_t first = 0;
  int64_t end = 0;
  // [ranks, E]: the choices of each rank's tokens, in order; this rank's are number `rank`.
  const float* totals = nullptr;
  int64_t ranks = 1;
  int64_t rank = 0;
  // [.., E]: those of parts of this rank's tokens, in order, of which these are part number `part`.
  const float* parts = nullptr;
  int64_t part = 0;
};

// The sums over counted tokens of what routers are judged by.
struct RouterSums {
  // As the training loss adds them: auxiliary · E · Σ_e f_e P_e and z · (log Σ exp(logits))².
  double auxiliary = 0;
  double z = 0;
  // The entropy of P, in nats.
  double entropy = 0;
  double tokens = 0;
};

// These move the biases by which experts are chosen, against their loads.
struct LoadDirectionArrays {
  int64_t runs = 0;
  const float* counts = nullptr;  // [runs, E]
  Accumulation accumulation = Accumulation::kAdd;
  float* direction = nullptr;  // [E]
};

// P_e is s_e, of kSigmoid over the sum of all s. f_e is counts[e] over the sum of the run's counts,
// a constant to gradients.
struct RouteBackwardArrays {
  const float* logits = nullptr;    // [N, E]
  const int32_t* chosen = nullptr;  // [N, k]
  const float* dweights = nullptr;  // [N, k]
  // [N, k]: E where a choice was dropped, whose `dweights` then counts as 0. Null: none was.
  const int32_t* placed = nullptr;
  CountedTokens counted;
  const float* counts = nullptr;  // [runs, E]; null: no auxiliary loss
  float auxiliary = 0;
  float z = 0;
  // The factor of both losses' gradients, in the ops' memory; null: 1.
  const float* gradient_scale = nullptr;
  void* dlogits = nullptr;  // T [N, E]
  // Record in the ops' memory to which the sums are added, in one order; null: not made.
  RouterSums* sums = nullptr;
};

// The rows of the experts: expert e has [offsets[e], offsets[e + 1]).
struct ExpertRows {
  int32_t* offsets = nullptr;      // [E + 1]
  int32_t* assignments = nullptr;  // [R]: of each row
  int32_t* places = nullptr;       // [R]: the row of each assignment
};

// The rows that a rank takes at a time for its experts, where W ranks share these out
// (common/compute/expert_dispatch.h): of all that they have for its experts, in order of expert and
// of rank, `rows` from number `first` on.
struct HostedRowsShape {
  int64_t ranks = 1;    // W
  int64_t rank = 0;     // Has the experts from rank E / W on.
  int64_t experts = 0;  // E, a multiple of W
  int64_t first = 0;
  int64_t rows = 0;
};

// Linear layers of all experts: y [R, out] = x [R, in] · weightᵀ of the row's expert, weights
// [E, out, in]. An expert without rows costs nothing but, where gradients of weights are written,
// its zeros.
struct ExpertLinear {
  DType type = DType::kF32;
  int64_t experts = 0;
  int64_t rows = 0;  // R
  int64_t in = 0;
  int64_t out = 0;
};

struct ExpertLinearGradientArrays {
  const void* dy = nullptr;  // T [R, out]
  const void* x = nullptr;   // T [R, in]
  Accumulation accumulation = Accumulation::kAdd;
  float* weight = nullptr;  // [E, out, in]
};

// y [R, F] = weight of the row's assignment · activation(x), rounded once. Gated: x [R, 2 F] has
// rows of gate, then up, and the activation is silu(gate) ⊙ up; otherwise x is [R, F], and it is
// the tanh form of GELU.
struct ExpertActivation {
  DType type = DType::kF32;
  int64_t rows = 0;  // R
  int64_t F = 0;
  bool gated = false;
};

struct ExpertActivationArrays {
  const void* x = nullptr;               // T
  const int32_t* assignments = nullptr;  // [R]
  const float* weights = nullptr;        // [R], by assignment
  void* y = nullptr;                     // T [R, F]
};

struct ExpertActivationGradientArrays {
  // The arrays of forward.
  const void* x = nullptr;
  const int32_t* assignments = nullptr;
  const float* weights = nullptr;
  const void* dy = nullptr;   // T [R, F]
  void* dx = nullptr;         // T, as x
  float* dweights = nullptr;  // [R], by assignment: dy · activation(x) of its row, in one order
};

// Rows of C columns.
struct TokenRowsShape {
  DType type = DType::kF32;
  int64_t tokens = 0;  // N
  int64_t top_k = 1;   // k
  int64_t width = 0;   // C
};

struct CombineArrays {
  const void* rows = nullptr;       // T [R, C]
  const int32_t* places = nullptr;  // [R]
  // The number of rows to sum, in the ops' memory: rows behind them are left out. Null: all are
  // summed.
  const int32_t* kept = nullptr;
  // T [N, C]: first summands, in this order; null: none; each may be out.
  const void* bases[3] = {};
  void* out = nullptr;  // T [N, C]
};

// y [N, C] = σ(logit of the row) · x.
struct GateRowsArrays {
  const float* logits = nullptr;  // [N]
  const void* x = nullptr;        // T [N, C]
  void* y = nullptr;              // T [N, C]; may be x
};

struct GateRowsGradientArrays {
  const float* logits = nullptr;  // [N]
  const void* x = nullptr;        // T [N, C]
  const void* dy = nullptr;       // T [N, C]
  void* dx = nullptr;             // T [N, C]; may be x or dy
  void* dlogits = nullptr;        // T [N]
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_MOE_EXPERT_ARRAYS_H_
