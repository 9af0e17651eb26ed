#ifndef MUSTER_COMMON_COMPUTE_EXPERT_OPS_H_
#define MUSTER_COMMON_COMPUTE_EXPERT_OPS_H_

#include <cstdint>

#include "common/kernels/moe/expert_arrays.h"
#include "common/tensor/dtype.h"

namespace muster {

// The arithmetic of experts on one kind of hardware, beside that of Ops, whose rules it keeps: it
// only queues, and the same calls with the same values give the same bits. How many rows an expert
// has is known to the memory of the ops alone.
class ExpertOps {
 public:
  virtual ~ExpertOps() = default;

  virtual void Route(const RouterShape& shape, const RouteArrays& arrays) = 0;
  // counts [runs, E] = how often each expert is chosen by counted tokens of the run; 0 in runs of
  // which these tokens are none.
  virtual void CountChosen(const RouterShape& shape, const int32_t* chosen,
                           const CountedTokens& counted, float* counts) = 0;
  // placed [N, k] of the limit's tokens = chosen, or E where the expert has as many as it takes.
  // With E + 1 experts, OrderRows of `placed` puts what is dropped behind the rows of experts.
  virtual void LimitChosen(const RouterShape& shape, const int32_t* chosen,
                           const ChoiceLimit& limit, int32_t* placed) = 0;
  // direction = or += an expert's choices minus the mean of all experts', times E, in one rounding:
  // whole numbers, whose sums over micro-batches and ranks are exact up to 2^24.
  virtual void LoadDirection(int64_t experts, const LoadDirectionArrays& arrays) = 0;
  // loads [E] += the rows of each expert.
  virtual void AddLoads(int64_t experts, const int32_t* offsets, uint64_t* loads) = 0;
  // dlogits = the gradient of the weights, and of both losses of counted tokens; sums += these.
  virtual void RouteBackward(const RouterShape& shape, DType type,
                             const RouteBackwardArrays& arrays) = 0;
  // Makes the rows of `chosen`.
  virtual void OrderRows(const RouterShape& shape, const int32_t* chosen,
                         const ExpertRows& rows) = 0;
  // Makes what a rank takes for its experts: where the rows of each begin, offsets [E / W + 1], and
  // numbers [rows] = 0, 1, … `rank_offsets` [W, E + 1] are ExpertRows::offsets of all ranks.
  virtual void OrderHostedRows(const HostedRowsShape& shape, const int32_t* rank_offsets,
                               int32_t* offsets, int32_t* numbers) = 0;

  // rows [R, C] = x [N, C]'s row of the assignment's token.
  virtual void GatherRows(const TokenRowsShape& shape, const void* x, const int32_t* assignments,
                          void* rows) = 0;
  // out = bases + the rows of the token's assignments that are kept, in their order, summed in f32,
  // rounded once.
  virtual void CombineRows(const TokenRowsShape& shape, const CombineArrays& arrays) = 0;

  virtual void Linear(const ExpertLinear& linear, const int32_t* offsets, const void* x,
                      const void* weight, void* y) = 0;
  // dx T [R, in] = dy T [R, out] · weight of the row's expert.
  virtual void LinearBackwardInput(const ExpertLinear& linear, const int32_t* offsets,
                                   const void* dy, const void* weight, void* dx) = 0;
  // weight of each expert = or += dyᵀ · x of its rows.
  virtual void LinearBackwardWeights(const ExpertLinear& linear, const int32_t* offsets,
                                     const ExpertLinearGradientArrays& arrays) = 0;

  virtual void Activate(const ExpertActivation& activation,
                        const ExpertActivationArrays& arrays) = 0;
  virtual void ActivateBackward(const ExpertActivation& activation,
                                const ExpertActivationGradientArrays& arrays) = 0;

  virtual void GateRows(const TokenRowsShape& shape, const GateRowsArrays& arrays) = 0;
  virtual void GateRowsBackward(const TokenRowsShape& shape,
                                const GateRowsGradientArrays& arrays) = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_EXPERT_OPS_H_
