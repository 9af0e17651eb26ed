#ifndef MUSTER_COMMON_COMPUTE_ACTIVATION_LAYOUT_H_
#define MUSTER_COMMON_COMPUTE_ACTIVATION_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/base/pass.h"
#include "common/base/round_up.h"
#include "common/compute/expert_dispatch.h"
#include "common/compute/expert_extents.h"
#include "common/compute/transformer_activations.h"
#include "common/device/arena_plan.h"
#include "common/step/unit_range.h"
#include "common/tensor/dtype.h"

namespace muster {

// The rules by which one kind of memory holds a transformer's arrays.
struct ActivationPlacement {
  // Every array begins at a multiple of so many bytes.
  uint64_t alignment = 0;
  // Every row of logits begins at a multiple of so many elements.
  uint64_t logits_alignment = 0;
  // Logits exist for as many tokens at a time as make so many bytes of them, in multiples of
  // `logit_rows_step` tokens, at least one multiple.
  uint64_t most_logits = 0;
  uint64_t logit_rows_step = 0;

  // Returns the elements from one row of logits to the next.
  constexpr uint64_t LogitsStride(uint64_t V) const { return RoundUp(V, logits_alignment); }
  // Returns the tokens whose logits, V each in f32, exist at a time.
  constexpr uint64_t LogitRows(uint64_t V) const {
    const uint64_t rows = most_logits / (LogitsStride(V) * sizeof(float));
    return std::max<uint64_t>(rows / logit_rows_step, 1) * logit_rows_step;
  }
};

// Cache lines. Logits are dense: other strides may choose other kernels, and so other bits.
inline constexpr ActivationPlacement kOnHost = {.alignment = 64,
                                                .logits_alignment = 1,
                                                .most_logits = uint64_t{256} << 20,
                                                .logit_rows_step = 1};
// Rows of logits begin on cache lines whatever the vocabulary, which vector loads and cuBLASLt
// need, and fill whole tiles of a product.
inline constexpr ActivationPlacement kOnDevice = {.alignment = ArenaPlan::kAlignment,
                                                  .logits_alignment = 64,
                                                  .most_logits = uint64_t{1} << 30,
                                                  .logit_rows_step = 128};

// What a layout goes by. Letters as in transformer_activations.h.
struct ActivationRequest {
  ActivationPlacement placement = kOnHost;
  // Blocks that have arrays, of which there are `first_layer` before: those of a stage.
  uint64_t layers = 0;
  uint64_t first_layer = 0;
  // True if there are logits.
  bool has_head = true;
  uint64_t N = 0;
  uint64_t C = 0;
  uint64_t A = 0;
  uint64_t H = 0;
  uint64_t Q = 0;
  uint64_t U = 0;
  uint64_t F = 0;
  uint64_t V = 0;
  // P, if queries and keys are normalised; otherwise 0.
  uint64_t P = 0;
  // Columns over which a query is normalised, or all of them together.
  uint64_t normed = 0;
  ExpertExtents experts;
  // r of adapters; 0: there are none.
  uint64_t adapter_rank = 0;
  // Runs of tokens over which choices of experts are counted.
  uint64_t count_runs = 0;
  // Parts of the tokens, and then data ranks, whose choices are counted where some may be dropped;
  // 0: none is.
  uint64_t choice_counts = 0;
  // T.
  DType type = DType::kF32;
  // Rows of which logits exist at a time, at most N; 0: those that the placement says.
  uint64_t logit_rows = 0;
  Recompute recompute = Recompute::kNone;
  Pass pass = Pass::kTraining;
  // True if the gradients of products' weights may be made after the whole backward pass of their
  // inputs: every block then keeps both operands of each; but see splits_experts.
  bool split_backward = false;
  // t, and whether the ranks share out rows.
  uint64_t tensor_ranks = 1;
  bool sequence_parallel = false;
  // c, and what these ranks do to attend.
  uint64_t context_ranks = 1;
  ContextExchange context_exchange = ContextExchange::kRing;
  // e.
  uint64_t expert_ranks = 1;

  // Returns true if context ranks share out heads to attend.
  bool divides_heads() const {
    return context_ranks > 1 && context_exchange == ContextExchange::kHeads;
  }
  // Q'.
  uint64_t exchanged_columns() const {
    const uint64_t D = A / H;
    return A + 2 * D * std::max((Q - A) / (2 * D), context_ranks);
  }

  // n.
  uint64_t own_rows() const { return sequence_parallel ? CeilDivide(N, tensor_ranks) : N; }
  // R.
  uint64_t expert_rows() const { return own_rows() * experts.k; }
  // R, or with expert ranks M.
  uint64_t hosted_rows() const {
    return expert_ranks == 1 ? expert_rows() : MostHostedRows(static_cast<int64_t>(expert_rows()));
  }
  // Returns true if the gradients of experts' weights are made after the backward pass of their
  // inputs. With expert ranks they are made where the rows are, whose rounds take turns in memory.
  bool splits_experts() const { return split_backward && expert_ranks == 1; }
  bool has_dense_blocks() const { return experts.E == 0 || !experts.dense_layers.empty(); }
  // Columns of a block's `up` and `activated`.
  uint64_t UpOf(uint64_t layer) const {
    return experts.IsExpertBlock(layer) ? experts.shared_U : U;
  }
  uint64_t ActivatedOf(uint64_t layer) const {
    return experts.IsExpertBlock(layer) ? experts.shared_F : F;
  }
  // The most of these in any block of the model.
  uint64_t widest_up() const { return std::max(has_dense_blocks() ? U : 0, experts.shared_U); }
  uint64_t widest_activated() const {
    return std::max(has_dense_blocks() ? F : 0, experts.shared_F);
  }
};

// Makes the request one for these units of a transformer of so many layers. Unit 0 is the
// embedding, and the last one the head.
void SetUnits(uint64_t layers, const UnitRange& units, ActivationRequest& request);

// Where the arrays of one micro-batch lie in one block of memory: for the engines that compute in
// it, and for those who only plan how much it is. In training every block has what it keeps for
// itself; what recomputation makes again, and in an evaluation everything, is one set for all
// blocks. The same arrays of fewer tokens take no more memory. Pure and immutable.
//
// Kept per token and block, beside the statistics of norms and attention: 2 C + A + Q + U + F
// elements of T and 2 C of f32 (the residual stream) without recomputation; Q + U and 2 C with the
// selective one; C of f32 alone with the full one. A split backward keeps 2 C + Q + U elements of T
// more, and with recomputation the products' inputs, 2 C + A + F. Where queries and keys are
// normalised, P elements of T more are kept unless recomputation is full. Where ranks share out
// rows, each keeps n of the N rows of what is C wide: everything is divided by t. A block of
// experts has k (U'
// + F') elements of T and E of f32 in the place of U + F, and a shared expert's U + F; what its
// router chooses is kept unless recomputation is full.
class ActivationLayout {
 public:
  // By what arrays are for, padding included. Multiples of the placement's alignment.
  struct Bytes {
    // What blocks have for themselves.
    uint64_t kept = 0;
    // What is there once, written by forward: the arrays that blocks share, the head's.
    uint64_t shared = 0;
    uint64_t logits = 0;
    // Branches and gradients.
    uint64_t scratch = 0;

    uint64_t total() const { return kept + shared + logits + scratch; }
  };

  explicit ActivationLayout(const ActivationRequest& request);

  const Bytes& bytes() const { return bytes_; }

  // Returns the arrays in bytes().total() bytes of memory that begin at `base`, and touches none.
  // Blocks before the first have no activations, and their gradients are scratch.
  // REQUIRES: `base` is aligned as the placement says.
  TransformerArrays Bind(std::byte* base) const;

 private:
  const ActivationRequest request_;
  Bytes bytes_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_ACTIVATION_LAYOUT_H_
