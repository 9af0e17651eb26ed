#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_COMPUTE_CONTEXT_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_COMPUTE_CONTEXT_H_

#include <algorithm>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/base/pass.h"
#include "common/base/round_up.h"
#include "common/compute/ops.h"
#include "common/kernels/accumulation.h"
#include "common/tensor/dtype.h"
#include "worker/nn/context_group.h"
#include "worker/nn/tensor_group.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"

namespace muster {

class CountingGroup;
class ExpertGroup;

// The collaborators of a transformer's layers besides their arrays; passed to every call. Arrays,
// and what the pointers here name, lie in the memory of the ops.
struct ComputeContext {
  Ops& ops;
  // T of transformer_arrays.h.
  DType type = DType::kF32;
  TokenRows rows;
  // [N]: below 0, the token has no loss, and routers' losses do not count it. Null: all count.
  const int32_t* labels = nullptr;
  // Record to which backward adds what routers are judged by; null: nowhere.
  RouterSums* router_sums = nullptr;
  // [layers, loads_of_block], to which backward adds how many tokens of its rows each expert of
  // each block got, and how many choices were dropped; null: nowhere.
  uint64_t* expert_loads = nullptr;
  Pass pass = Pass::kTraining;
  // Key dropout. The clock is null only where nothing is dropped.
  uint64_t seed = 0;
  const DropoutClock* clock = nullptr;
  // LayerContext::loss_scale; null: 1.
  const float* loss_scale = nullptr;
  // The way in which backward leaves the gradients of parameters.
  Accumulation gradients = Accumulation::kAdd;
  // True if the arrays are those of ActivationRequest::split_backward: the gradients of products'
  // weights are made apart from the rest of backward.
  bool split_backward = false;
  // The ranks that compute the transformer together; null: this rank alone.
  TensorGroup* group = nullptr;
  // True if they share out the rows where no rank needs all of them (sequence parallelism).
  bool sequence_parallel = false;
  // The ranks that share out the tokens of sequences, as rows.share says, and how each comes by the
  // others' keys and values; null: rows are whole sequences.
  ContextGroup* context_group = nullptr;
  ContextExchange context_exchange = ContextExchange::kRing;
  // The ranks that share out experts; null: this rank has all of them.
  ExpertGroup* expert_group = nullptr;
  // [layers, e, E + 1], in the host's memory: what every block has in rank_offsets.
  int32_t* rank_offsets = nullptr;
  // LayerContext::counting_group.
  CountingGroup* counting_group = nullptr;

  bool divides_rows() const { return group != nullptr && sequence_parallel; }
  // Returns the rows that each rank has memory for where rows are shared out: n. Rank r has rows
  // [r n, min(N, (r + 1) n)), so the last ranks may have fewer, or none.
  int64_t rows_of_rank() const {
    return divides_rows() ? CeilDivide<int64_t>(rows.count(), group->size()) : rows.count();
  }
  // Returns the first of this rank's own rows, and their number.
  int64_t first_row() const {
    return divides_rows() ? std::min(rows.count(), group->rank() * rows_of_rank()) : 0;
  }
  int64_t own_rows() const { return std::min(rows_of_rank(), rows.count() - first_row()); }
};

// Returns the dropout of the arrays that `name` keys; none in an evaluation.
inline OpDropout DropoutOf(const ComputeContext& context, absl::string_view name,
                           float probability) {
  if (probability == 0 || context.pass != Pass::kTraining) return {};
  // The clock is not the mask's but context.clock.
  return DropoutOf(DropoutMask(context.seed, name, /*clock=*/0, probability), context.clock);
}

// Returns the same for this rank's own rows of `width` elements.
inline OpDropout DropoutOfOwnRows(const ComputeContext& context, absl::string_view name,
                                  float probability, int64_t width) {
  OpDropout dropout = DropoutOf(context, name, probability);
  dropout.first_element = context.first_row() * width;
  dropout.share = context.rows.share;
  return dropout;
}

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_COMPUTE_CONTEXT_H_
